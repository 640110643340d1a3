// count_uniqs: the states of the runs of a batch of series: finds where the rounded timestamp
// changes, and makes all parts of a run's state in one visit.
//
// Computes: for each series and bucket k the state of its samples of starts[k] <= t < ends[k]:
//   how many, their sum, extremes, first and last, squared distances from the mean, and areas,
//   with the operations of package resample/aggregate in their order. points[place] += the number
//   of runs. With `in_rows` also which keys of its row each run has, for order statistics: see order.h.
// Grid: x tiles of 32 series, four a block of 128 threads; y ranges of buckets.
// A thread owns one series at `length` neighbouring buckets. It finds its first sample by
//   bisection; from then on the next run begins where the last one ended, unless buckets overlap,
//   and only a run that leaves buckets out rounds its time. The threads of a warp walk 32 series in step and come
//   together at the end of each bucket.
// Bytes per sample: reads 16, in rows of 256 a warp, five samples at once. Writes a run's state
//   once: 4, and 8 a field: fields[f][(tile*buckets+k)*32+lane]; and 8 with `in_rows`.
// Operations per sample: 6 for the sum, 4 for extremes, 4 for squares, 12 for areas, and 6 to find
//   out whether it is the bucket's.
#include "stored.h"

KERNEL COUNT_THREADS count_uniqs(RUNS_PARAMETERS, u32 parts, u32* __restrict__ n, double* __restrict__ fields,
                                    u64 cells, u32* __restrict__ points, u64* __restrict__ in_rows) {
  RunsJob job = RUNS_JOB;
  if (!job.owns(tiles)) return;
  job.in_rows = in_rows;
  States out{n, fields, cells, parts};
  auto plain = [](auto run) { return run; };
  u32 runs = job.differences ? count_runs<true>(job, out, plain) : count_runs<false>(job, out, plain);
  if (runs) atomic_add(points + job.place, runs);
}
