// merge_runs: merges the numbers of samples, sums, and squared distances from the mean that a batch's runs
// have into those of their groups.
//
// Computes: the state of group g at bucket k = its merger with that of each series of group g in bucket k, in
//   the order of the series, as far as group_parts has it.
// Grid: x 32 buckets, a block of 32 threads by up to 8; y the groups that have a part in the batch, in strides of
//   the grid.
// A thread of the first warp owns one group at one bucket and goes through its series one after the other, but
//   does no more than what must be in their order: three chains of additions. All warps load, and make what the
//   first one adds: what each sum loses by rounding, and what each run adds to the squares, from the count and
//   the sum that it was merged into.
//
//	states ──► sums ──────► what they ──► lost sums ──► terms of ──► squares
//	           first warp   lose   all    first         squares all  first
//
// Bytes per run: reads 4, 16 for sums, and 8 for squares, or a value. Reads and writes a state a group and bucket.
// Operations per run: 10 for sums, 60 for squares.
#include "group_series.h"

const u32 kMostRows = kMostWarps * kAtOnce;

// Of some series the count and the sum, or those that each is merged into; sums are what the first warp adds next.
struct LoadedRuns {
  double sum[kMostRows][32], lost[kMostRows][32];
  u32 n[kMostRows][32];
  u32 unsure;

  DEVICE void put(u32 i, const RunState& s) {
    sum[i][thread_x()] = s.sum;
    lost[i][thread_x()] = s.lost;
    n[i][thread_x()] = s.n;
  }
  DEVICE RunState get(u32 i) const {
    RunState s{};
    s.sum = sum[i][thread_x()];
    s.lost = lost[i][thread_x()];
    s.n = n[i][thread_x()];
    return s;
  }
};

// Merges runs one by one, and leaves what each was merged into.
NOINLINE RunState merge_each(RunState s, LoadedRuns* loaded, u32 count) {
  for (u32 i = 0; i < count; i++) {
    RunState o = loaded->get(i);
    loaded->put(i, s);
    if (o.n == 0) continue;
    if (s.n == 0) {
      s.sum = o.sum, s.lost = o.lost, s.n = o.n;
      if (!is_finite(s.sum)) s.set_sum(s.lost, s.n);  // only the sum of a run is Prometheus's
    } else {
      merge(s, o, kSumPart);
    }
  }
  return s;
}

// Goes through `count` rows, eight at once, of which the last may be behind them: next(i, values) has those of
// row i and behind it.
template <class Next>
DEVICE void chain(const double (&rows)[kMostRows][32], u32 count, Next&& next) {
  NO_UNROLL for (u32 i = 0; i < count; i += kAtOnce) {
    double v[kAtOnce];
    UNROLL for (u32 j = 0; j < kAtOnce; j++) v[j] = rows[i + j][thread_x()];
    next(i, v);
  }
}

// Merges the runs of a group's series from `from` to `end` into its state. Where nothing is, -0 is added to sums,
// which changes none.
template <Parts read>
DEVICE void merge_group(const MergeJob& job, u32 from, u32 end, LoadedRuns& loaded, RunState& s) {
  u32 lane = thread_x(), mine = thread_y() * kAtOnce, all = threads_y() * kAtOnce;
  bool first = thread_y() == 0;
  RunState o[kAtOnce];
  job.load<read>(from + mine, end, o);
  for (u32 at = from; at < end; at += all) {
    u32 count = end - at < all ? end - at : all;
    barrier();  // all that was loaded is taken
    if (first && lane == 0) loaded.unsure = 0;
    UNROLL for (u32 j = 0; j < kAtOnce; j++) {
      if (o[j].n == 0) o[j].sum = o[j].lost = -0.0;
      loaded.put(mine + j, o[j]);
    }
    barrier();
    RunState was = s;
    if (first) {
      chain(loaded.sum, count, [&](u32 i, const double* v) {
        UNROLL for (u32 j = 0; j < kAtOnce; j++) {
          loaded.sum[i + j][lane] = s.sum;
          s.sum += v[j];
          u32 n = loaded.n[i + j][lane];
          loaded.n[i + j][lane] = s.n;
          s.n += n;
        }
      });
      if (!is_finite(s.sum)) loaded.unsure = 1;
    }
    barrier();
    bool unsure = loaded.unsure;
    if (unsure) {
      UNROLL for (u32 j = 0; j < kAtOnce; j++) loaded.put(mine + j, o[j]);
      barrier();
      if (first) s = merge_each(was, &loaded, count);
      barrier();
    }
    double sums[kAtOnce];
    UNROLL for (u32 j = 0; j < kAtOnce; j++) sums[j] = loaded.sum[mine + j][lane];
    if (!unsure) {
      UNROLL for (u32 j = 0; j < kAtOnce; j++) loaded.sum[mine + j][lane] = lost_by(sums[j], o[j].sum, sums[j] + o[j].sum);
      barrier();
      if (first) {
        chain(loaded.sum, count, [&](u32 i, const double* v) {
          UNROLL for (u32 j = 0; j < kAtOnce; j++) {
            double rest = loaded.lost[i + j][lane];
            loaded.lost[i + j][lane] = s.lost;
            s.lost += v[j];
            s.lost += rest;
          }
        });
      }
    }
    if (read & kSquaresPart) {
      barrier();
      UNROLL for (u32 j = 0; j < kAtOnce; j++) {
        RunState into = loaded.get(mine + j);
        into.sum = sums[j];
        loaded.sum[mine + j][lane] = o[j].n == 0 ? 0 : into.n == 0 ? o[j].squares : squares_of_merging(into, o[j]);
      }
      barrier();
    }
    if (at + all < end) job.load<read>(at + all + mine, end, o);
    if ((read & kSquaresPart) && first) {
      chain(loaded.sum, count, [&](u32, const double* v) {
        UNROLL for (u32 j = 0; j < kAtOnce; j++) s.squares += v[j];  // a term is never -0
      });
    }
  }
}

#define MERGE_THREADS MAX_THREADS_AND_BLOCKS(256, 2)

KERNEL MERGE_THREADS merge_runs(MERGE_PARAMETERS) {
  SHARED LoadedRuns loaded;
  MergeJob job = MERGE_JOB;
  job.begin();
  const Parts all = kSumPart | kSquaresPart;
  for (u32 i = block_y(); i < count; i += blocks_y()) {
    u32 had = group_n[job.groups.count_at(groups[i], job.k)];
    RunState s{};
    if (had > 0) s = job.groups.load(groups[i], job.k, all);
    if (had == 0) s.sum = -0.0;
    if (group_parts & kSquaresPart) {
      merge_group<all>(job, starts[i], starts[i + 1], loaded, s);
    } else if (group_parts & kSumPart) {
      merge_group<kSumPart>(job, starts[i], starts[i + 1], loaded, s);
    } else {
      merge_group<0>(job, starts[i], starts[i + 1], loaded, s);
    }
    if (!job.owns || thread_y() > 0) continue;
    job.groups.store(groups[i], job.k, s, all);
    group_n[job.groups.count_at(groups[i], job.k)] = s.n;
  }
}
