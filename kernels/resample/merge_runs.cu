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

const u32 kMostRows = kWarps * kRows;

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

// squares_of_merging where that takes divisions.
NOINLINE double squares_again(u32 n, double sum, double lost, u32 o_n, double o_sum, double o_lost, double o_squares) {
  RunState s{}, o{};
  s.n = n, s.sum = sum, s.lost = lost;
  o.n = o_n, o.sum = o_sum, o.lost = o_lost, o.squares = o_squares;
  return squares_of_merging(s, o);
}

// Goes through `count` rows, a multiple of kRows but for the last, which are loaded before those before them are
// handed to next(i, values), of row i and behind it.
template <class Next>
DEVICE void chain(const double (&rows)[kMostRows][32], u32 count, Next&& next) {
  double ahead[kRows];
  UNROLL for (u32 j = 0; j < kRows; j++) ahead[j] = rows[j][thread_x()];
  NO_UNROLL for (u32 i = 0; i < count; i += kRows) {
    double v[kRows];
    UNROLL for (u32 j = 0; j < kRows; j++) v[j] = ahead[j];
    u32 behind = i + kRows < count ? i + kRows : i;
    UNROLL for (u32 j = 0; j < kRows; j++) ahead[j] = rows[behind + j][thread_x()];
    next(i, v);
  }
}

// Merges the runs of a group's series from `from` to `end` into its state. Where nothing is, -0 is added to sums,
// which changes none.
template <Parts read>
DEVICE void merge_group(const MergeJob& job, u32 from, u32 end, LoadedRuns& loaded, RunState& s) {
  u32 lane = thread_x(), mine = thread_y() * kRows, all = threads_y() * kRows;
  bool first = thread_y() == 0;
  RunState o[kRows];
  job.load<read>(from + mine, end, o);
  for (u32 at = from; at < end; at += all) {
    u32 count = end - at < all ? end - at : all;
    barrier();  // all that was loaded is taken
    if (first && lane == 0) loaded.unsure = 0;
    UNROLL for (u32 j = 0; j < kRows; j++) {
      if (o[j].n == 0) o[j].sum = o[j].lost = -0.0;
      loaded.put(mine + j, o[j]);
    }
    barrier();
    RunState was = s;
    if (first) {
      chain(loaded.sum, count, [&](u32 i, const double* v) {
        UNROLL for (u32 j = 0; j < kRows; j++) {
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
      UNROLL for (u32 j = 0; j < kRows; j++) loaded.put(mine + j, o[j]);
      barrier();
      if (first) s = merge_each(was, &loaded, count);
      barrier();
    }
    double sums[kRows];
    UNROLL for (u32 j = 0; j < kRows; j++) sums[j] = loaded.sum[mine + j][lane];
    if (!unsure) {
      UNROLL for (u32 j = 0; j < kRows; j++) {
        loaded.sum[mine + j][lane] = lost_by(sums[j], o[j].sum, sums[j] + o[j].sum);
      }
      barrier();
      if (first) {
        chain(loaded.sum, count, [&](u32 i, const double* v) {
          UNROLL for (u32 j = 0; j < kRows; j++) {
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
      RunState into[kRows];
      double terms[kRows];
      bool sure = true;
      UNROLL for (u32 j = 0; j < kRows; j++) {
        into[j] = loaded.get(mine + j);
        into[j].sum = sums[j];
        bool both = o[j].n > 0 && into[j].n > 0, fine = true;
        double term = squares_of_merging(into[j], o[j], fine);
        terms[j] = both ? term : o[j].n > 0 ? o[j].squares : 0;
        sure = sure && (fine || !both);
      }
      UNROLL for (u32 j = 0; j < kRows; j++) {
        if (!sure && o[j].n > 0 && into[j].n > 0) {
          terms[j] = squares_again(into[j].n, into[j].sum, into[j].lost, o[j].n, o[j].sum, o[j].lost, o[j].squares);
        }
        loaded.sum[mine + j][lane] = terms[j];
      }
      barrier();
    }
    if (at + all < end) job.load<read>(at + all + mine, end, o);
    if ((read & kSquaresPart) && first) {
      chain(loaded.sum, count, [&](u32, const double* v) {
        UNROLL for (u32 j = 0; j < kRows; j++) s.squares += v[j];  // a term is never -0
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
