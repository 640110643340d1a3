// merge_parts: merges the extremes, ends, and areas of a batch's runs into those of their groups.
//
// Computes: state g*buckets+k = its merger with that of each series of group g in bucket k, in the order of
//   the series, as far as group_parts has it. The count of its samples is left to merge_runs.
// Grid: x 32 buckets, a block of 32 by 3 threads; y the groups that have a part in the batch, in strides of the
//   grid.
// A thread owns the extremes, the ends, or the areas, by its row in the block, of one group at one bucket. It
//   merges the runs of the group's series one after the other.
// Bytes per run: reads 4 in each row, and 8 a field, eight series at once, before those eight before them are
//   merged; those of 64 series behind are on their way to the cache. Reads and writes a state a group and bucket.
// Operations per run: 4 for extremes.
#include "group_series.h"

const u32 kFar = 64;  // series

// Has the parts of series i come nearer that will be loaded.
template <Parts mine>
DEVICE void prefetch_series(const MergeJob& job, u32 i) {
  u64 at = job.cell(i);
  const double* f = job.runs.part(mine, at);
  UNROLL for (u32 j = 0; j < fields_of(mine); j++) prefetch(f + j * job.runs.cells);
}

template <Parts mine>
DEVICE void merge_series(const MergeJob& job, u32 from, u32 end, u64 cell) {
  RunState s{}, ahead[kAtOnce];
  u32 had = job.groups.n[cell];
  if (had > 0) s = job.groups.load_fields(cell, mine);
  s.n = had;
  job.load<mine>(from, end, ahead);
  for (u32 i = from; i < end; i += kAtOnce) {
    RunState o[kAtOnce];
    UNROLL for (u32 j = 0; j < kAtOnce; j++) o[j] = ahead[j];
    UNROLL for (u32 j = 0; j < kAtOnce; j++) {
      if (!job.values && i + kFar + j < end) prefetch_series<mine>(job, i + kFar + j);
    }
    job.load<mine>(i + kAtOnce, end, ahead);
    UNROLL for (u32 j = 0; j < kAtOnce; j++) {
      if (o[j].n == 0) continue;
      if (s.n == 0) {
        s = o[j];
      } else {
        merge(s, o[j], mine);
      }
    }
  }
  job.groups.store(cell, s, mine);
}

#define PARTS_THREADS MAX_THREADS_AND_BLOCKS(96, 4)

KERNEL PARTS_THREADS merge_parts(MERGE_PARAMETERS) {
  MergeJob job = MERGE_JOB;
  if (job.k >= buckets) return;
  const Parts sets[] = {kExtremesPart, kEndsPart, kWeightedPart};
  for (u32 i = block_y(); i < count; i += blocks_y()) {
    u64 cell = (u64)groups[i] * buckets + job.k;
    switch (sets[thread_y()] & group_parts) {
      case kExtremesPart: merge_series<kExtremesPart>(job, starts[i], starts[i + 1], cell); break;
      case kEndsPart: merge_series<kEndsPart>(job, starts[i], starts[i + 1], cell); break;
      case kWeightedPart: merge_series<kWeightedPart>(job, starts[i], starts[i + 1], cell); break;
    }
  }
}
