// count_uniqs: the numbers of samples of the runs of a batch of series, and their sums: finds where the
// rounded timestamp changes.
//
// Computes: for each series s and bucket k of its samples of starts[k] <= t < ends[k] how many there are,
//   n[s*buckets+k], and if `parts` says so their sum, as States in state.h lie, with the operations of package
//   resample/aggregate in their order. points[s] += the number of runs.
// Grid: x tiles of 32 series, four a block of 128 threads; y ranges of buckets.
// A thread owns one series at `length` neighbouring buckets. It finds its first sample by bisection; from
//   then on the next run begins where the last one ended, unless buckets overlap. How many samples of a
//   chunk a bucket has is known before they are loaded: of regular times by a division. The threads of a
//   warp walk 32 series in step and come together at the end of each bucket.
// Bytes per sample: reads its value, 8 in columns, 2 to 8 in packed tiles, in rows of 32, eight at once while
//   the next eight come nearer; and a time or two a bucket. Writes a run's state once: 4, and 8 a field, eight
//   buckets at once.
// Operations per sample: 7 for the sum, 2 to unpack it, 3 more of decimals, and 5 for the loop.
#include "stored.h"

// 96 registers a thread, so that 20 warps of a multiprocessor wait for samples at once.
#define SUMS_THREADS MAX_THREADS_AND_BLOCKS(128, 5)

KERNEL SUMS_THREADS count_uniqs(RUNS_PARAMETERS, u32 parts, u32* __restrict__ n, double* __restrict__ fields,
                                u32* __restrict__ points) {
  RunsJob job = RUNS_JOB;
  if (!job.owns(tiles)) return;
  auto out = lines_of<kRoomOfSums>(job, n, fields, parts);
  if (job.differences) {
    count_runs<true>(job, points, StoredRun<kSums, true>(job, out, parts));
  } else {
    count_runs<false>(job, points, StoredRun<kSums, false>(job, out, parts));
  }
}
