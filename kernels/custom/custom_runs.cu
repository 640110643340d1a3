// custom_runs: the states of a custom aggregate of the runs of a batch of series, or its results.
//
// Computes: for each series and bucket k the program's state after its samples of
//   starts[k] <= t < ends[k], one after the other: field f is fields[f*cells+cell], where
//   cell = (tile*buckets+k)*32+lane; or with `found` the result of that state, found[cell].
//   n[cell] = the number of samples. points[place] += the number of runs.
// Grid: x tiles of 32 series, four a block of 128 threads; y ranges of buckets.
// A thread owns one series at `length` neighbouring buckets, and walks as count_uniqs does. The
//   state is in registers.
// Bytes per sample: reads 16, in rows of 256 a warp. Writes 4 a run, and 8 a field or a result.
// Operations per sample: those of the program, and 6 to find out whether it is the bucket's.
#include "../resample/walk.h"
#include "custom_run.h"

// 96 registers a thread, of which a program with many fields takes no notice.
#define CUSTOM_THREADS MAX_THREADS_AND_BLOCKS(128, 5)

KERNEL CUSTOM_THREADS custom_runs(RUNS_PARAMETERS, u32* __restrict__ n, double* __restrict__ fields, u64 cells,
                                    double* __restrict__ found, u32* __restrict__ points) {
  RunsJob job = RUNS_JOB;
  if (!job.owns(tiles)) return;
  CustomStates out{n, fields, cells, found};
  u32 runs = job.differences ? walk_runs<true>(job, n, CustomRun(job.buckets, out))
                             : walk_runs<false>(job, n, CustomRun(job.buckets, out));
  if (runs) atomic_add(points + job.place, runs);
}
