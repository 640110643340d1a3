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
#include "run.h"

const u32 kSamplesAhead = 4;  // samples loaded at once

// 96 registers a thread, so that 20 warps of a multiprocessor wait for samples at once.
#define COUNT_THREADS MAX_THREADS_AND_BLOCKS(128, 5)

template <Parts made, bool differences>
DEVICE u32 count_uniqs_of(const RunsJob& job, const States& out) {
  const Buckets& buckets = job.buckets;
  const Columns& c = job.c;
  Source in = source_from<differences>(job, buckets.start(job.mine.from));
  u32 runs = 0;
  for (u32 k = job.mine.from; k < job.mine.to;) {
    i64 start = buckets.start(k), end = buckets.end(k);
    if (in.at.t >= end) {
      u32 has = in.at.t == kNever ? job.mine.to : buckets.round_timestamp(in.at.t);
      for (; k < has && k < job.mine.to; k++) out.n[job.cell(k)] = 0;
      continue;
    }
    while (in.at.t < start) {
      in.value<differences>(value_at(in.at, c));
      next(in.at, c);
    }
    Run<made> r;
    r.begin();
    while (in.at.t < end) {
      Walker& w = in.at;
      if (w.i + kSamplesAhead >= w.n) {
        double v = c.values[w.at];
        i64 t = w.t;
        next(w, c);
        r.add(t, in.value<differences>(v));
        continue;
      }
      i64 t[kSamplesAhead + 1];
      double v[kSamplesAhead];
      t[0] = w.t;
      UNROLL for (u32 i = 0; i < kSamplesAhead; i++) {
        v[i] = c.values[w.at + i * 32];
        t[i + 1] = c.times[w.at + (i + 1) * 32];
      }
      u32 passed = 0;
      UNROLL for (u32 i = 0; i < kSamplesAhead; i++) {
        if (t[i] < end) {
          r.add(t[i], in.value<differences>(v[i]));
          w.t = t[i + 1];
          passed++;
        }
      }
      w.i += passed;
      w.at += passed * 32;
    }
    if (r.s.n > 0) {
      r.end(end);
      if (!r.sure()) sum_again<differences>(job, k).give(r.s);
      r.square();
      runs++;
    }
    out.n[job.cell(k)] = r.s.n;
    out.store(job.cell(k), r.s, out.parts);
    k++;
    if (!job.apart && k < job.mine.to) in = source_again<differences>(job, buckets.start(k));
  }
  return runs;
}

template <bool differences>
DEVICE u32 count_uniqs_of(const RunsJob& job, const States& out) {
  if (!(out.parts & ~kSums)) return count_uniqs_of<kSums, differences>(job, out);
  if (!(out.parts & ~kUsual)) return count_uniqs_of<kUsual, differences>(job, out);
  return count_uniqs_of<kAllParts, differences>(job, out);
}

KERNEL COUNT_THREADS count_uniqs(RUNS_PARAMETERS, u32 parts, u32* __restrict__ n, double* __restrict__ fields,
                                    u64 cells, u32* __restrict__ points) {
  RunsJob job = RUNS_JOB;
  if (!job.owns(tiles)) return;
  States out{n, fields, cells, parts};
  u32 runs = job.differences ? count_uniqs_of<true>(job, out) : count_uniqs_of<false>(job, out);
  if (runs) atomic_add(points + job.mine.tile * 32 + job.mine.lane, runs);
}
