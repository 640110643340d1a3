// count_uniqs: the states of the runs of a batch of series: finds where the rounded timestamp
// changes, and makes all parts of a run's state in one visit.
//
// Computes: for each series and bucket k the state of its samples of starts[k] <= t < ends[k]:
//   how many, their sum, extremes, first and last, squared distances from the mean, and areas,
//   with the operations of package resample/aggregate in their order. points[place] += the number
//   of runs.
// Grid: x tiles of 32 series, four a block of 128 threads; y ranges of buckets.
// A thread owns one series at `length` neighbouring buckets. It finds its first sample by
//   bisection; from then on the next run begins where the last one ended, unless buckets overlap,
//   and only a run that leaves buckets out rounds its time. The threads of a warp walk 32 series in step and come
//   together at the end of each bucket.
// Bytes per sample: reads 16, in rows of 256 a warp, five samples at once. Writes a run's state
//   once: 4, and 8 a field: fields[f][(tile*buckets+k)*32+lane].
// Operations per sample: 6 for the sum, 4 for extremes, 4 for squares, 12 for areas, and 6 to find
//   out whether it is the bucket's.
#include "walk.h"

// 96 registers a thread, so that 20 warps of a multiprocessor wait for samples at once.
#define COUNT_THREADS MAX_THREADS_AND_BLOCKS(128, 5)

// A run whose state is stored.
template <Parts made, bool differences>
struct StoredRun : Run<made> {
  const RunsJob& job;
  const States& out;

  DEVICE StoredRun(const RunsJob& job, const States& out) : job(job), out(out) {}

  DEVICE u32 samples() const { return this->s.n; }

  DEVICE void end(u32 k, u64 cell) {
    Run<made>::end(job.buckets.end(k));
    if (!this->sure()) sum_again<differences>(job, k).give(this->s);
    this->square();
    out.store(cell, this->s, out.parts);
  }
};

template <bool differences>
DEVICE u32 count_uniqs_of(const RunsJob& job, const States& out) {
  if (!(out.parts & ~kSums)) return walk_runs<differences>(job, out.n, StoredRun<kSums, differences>(job, out));
  if (!(out.parts & ~kUsual)) return walk_runs<differences>(job, out.n, StoredRun<kUsual, differences>(job, out));
  return walk_runs<differences>(job, out.n, StoredRun<kAllParts, differences>(job, out));
}

KERNEL COUNT_THREADS count_uniqs(RUNS_PARAMETERS, u32 parts, u32* __restrict__ n, double* __restrict__ fields,
                                    u64 cells, u32* __restrict__ points) {
  RunsJob job = RUNS_JOB;
  if (!job.owns(tiles)) return;
  States out{n, fields, cells, parts};
  u32 runs = job.differences ? count_uniqs_of<true>(job, out) : count_uniqs_of<false>(job, out);
  if (runs) atomic_add(points + job.mine.tile * 32 + job.mine.lane, runs);
}
