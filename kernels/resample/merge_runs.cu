// merge_runs: merges the numbers of samples, sums, and squared distances from the mean that a batch's runs
// have into those of their groups.
//
// Computes: state g*buckets+k = its merger with that of each series of group g in bucket k, in the order of
//   the series, as far as group_parts has it.
// Grid: x 32 buckets, a block of 32 threads by up to 8; y the groups that have a part in the batch, in strides of
//   the grid.
// A thread of the first warp owns one group at one bucket and merges the runs of its series one after the other.
//   All warps load them, and what each run adds to the squares, of which most are divisions, its thread makes
//   of what the first warp leaves: the count and the sum that the run was merged into.
//
//	states ──► loaded ──► merged in order, ──► terms ──► added in order
//	           all warps  first warp           all       first
// Bytes per run: reads 4, 16 for sums, and 8 for squares, or a value. Reads and writes a state a group and bucket.
// Operations per run: 10 for sums, 60 for squares.
#include "group_series.h"

const u32 kMostRows = kMostWarps * kAtOnce;

// States of some series, or what each is merged into; the sums are the terms of squares in the end.
struct LoadedRuns {
  double sum[kMostRows][32], lost[kMostRows][32];
  u32 n[kMostRows][32];

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

// Merges runs from `at` on one by one, and leaves what each was merged into.
NOINLINE RunState merge_each(RunState s, LoadedRuns* loaded, u32 at) {
  for (u32 j = at; j < at + kAtOnce; j++) {
    RunState o = loaded->get(j);
    loaded->put(j, s);
    if (o.n == 0) continue;
    if (s.n == 0) {
      s = o;
      if (!is_finite(s.sum)) s.set_sum(s.lost, s.n);  // only the sum of a run is Prometheus's
    } else {
      merge(s, o, kSumPart);
    }
  }
  return s;
}

// The same where no sum overflows: runs that are not there are told apart by selection, so that the sums are the
// only chain. Reports false, and has changed nothing, where a sum is not finite.
DEVICE bool merge_finite(RunState& s, LoadedRuns& loaded, u32 at) {
  RunState o[kAtOnce], into[kAtOnce + 1];
  UNROLL for (u32 j = 0; j < kAtOnce; j++) o[j] = loaded.get(at + j);
  into[0] = s;
  UNROLL for (u32 j = 0; j < kAtOnce; j++) {
    RunState& next = into[j + 1];
    double sum = into[j].sum, rest = into[j].lost;
    merge_sums(o[j].sum, o[j].lost, sum, rest);
    bool there = o[j].n > 0, begins = into[j].n == 0;
    next.sum = !there ? into[j].sum : begins ? o[j].sum : sum;
    next.lost = !there ? into[j].lost : begins ? o[j].lost : rest;
    next.n = into[j].n + o[j].n;
  }
  if (!is_finite(into[kAtOnce].sum)) return false;
  UNROLL for (u32 j = 0; j < kAtOnce; j++) loaded.put(at + j, into[j]);
  s.sum = into[kAtOnce].sum;
  s.lost = into[kAtOnce].lost;
  s.n = into[kAtOnce].n;
  return true;
}

// Merges the runs of a group's series from `from` to `end` into its state.
template <Parts read>
DEVICE void merge_group(const MergeJob& job, u32 from, u32 end, LoadedRuns& loaded, RunState& s) {
  const bool squares = read & kSquaresPart;
  u32 mine = thread_y() * kAtOnce, all = threads_y() * kAtOnce;
  bool first = thread_y() == 0;
  RunState o[kAtOnce];
  job.load<read>(from + mine, end, o);
  for (u32 at = from; at < end; at += all) {
    barrier();  // all that was loaded is taken
    UNROLL for (u32 j = 0; j < kAtOnce; j++) loaded.put(mine + j, o[j]);
    barrier();
    if (!squares) job.load<read>(at + all + mine, end, o);
    NO_UNROLL for (u32 i = 0; first && i < all && at + i < end; i += kAtOnce) {
      if (!merge_finite(s, loaded, i)) s = merge_each(s, &loaded, i);
    }
    if (!squares) continue;
    barrier();
    UNROLL for (u32 j = 0; j < kAtOnce; j++) {
      RunState into = loaded.get(mine + j);
      loaded.sum[mine + j][thread_x()] = o[j].n == 0 ? 0 : into.n == 0 ? o[j].squares : squares_of_merging(into, o[j]);
    }
    job.load<read>(at + all + mine, end, o);
    barrier();
    // A term is never -0, so that to add 0 changes nothing.
    NO_UNROLL for (u32 i = 0; first && i < all && at + i < end; i += kAtOnce) {
      UNROLL for (u32 j = 0; j < kAtOnce; j++) s.squares += loaded.sum[i + j][thread_x()];
    }
  }
}

#define MERGE_THREADS MAX_THREADS_AND_BLOCKS(256, 2)

KERNEL MERGE_THREADS merge_runs(MERGE_PARAMETERS) {
  SHARED LoadedRuns loaded;
  MergeJob job = MERGE_JOB;
  bool mine = job.k < buckets && thread_y() == 0;
  if (job.k >= buckets) job.k = 0;
  const Parts read = kSumPart | kSquaresPart;
  for (u32 i = block_y(); i < count; i += blocks_y()) {
    u64 cell = (u64)groups[i] * buckets + job.k;
    RunState s{};
    if (group_n[cell] > 0) s = job.groups.load(cell, read);
    if (group_parts & kSquaresPart) {
      merge_group<read>(job, starts[i], starts[i + 1], loaded, s);
    } else if (group_parts & kSumPart) {
      merge_group<kSumPart>(job, starts[i], starts[i + 1], loaded, s);
    } else {
      merge_group<0>(job, starts[i], starts[i + 1], loaded, s);
    }
    if (!mine) continue;
    job.groups.store(cell, s, read);
    group_n[cell] = s.n;
  }
}
