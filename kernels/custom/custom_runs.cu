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
#include "../resample/run.h"
#include "custom_run.h"

const u32 kCustomAhead = 4;  // samples loaded at once

// 96 registers a thread, of which a program with many fields takes no notice.
#define CUSTOM_THREADS MAX_THREADS_AND_BLOCKS(128, 5)

template <bool differences>
DEVICE u32 custom_runs_of(const RunsJob& job, const CustomStates& out) {
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
    CustomRun r;
    r.begin();
    while (in.at.t < end) {
      Walker& w = in.at;
      if (w.i + kCustomAhead >= w.n) {
        double v = c.values[w.at];
        i64 t = w.t;
        next(w, c);
        r.add(t, in.value<differences>(v));
        continue;
      }
      i64 t[kCustomAhead + 1];
      double v[kCustomAhead];
      t[0] = w.t;
      UNROLL for (u32 i = 0; i < kCustomAhead; i++) {
        v[i] = c.values[w.at + i * 32];
        t[i + 1] = c.times[w.at + (i + 1) * 32];
      }
      u32 passed = 0;
      UNROLL for (u32 i = 0; i < kCustomAhead; i++) {
        if (t[i] < end) {
          r.add(t[i], in.value<differences>(v[i]));
          w.t = t[i + 1];
          passed++;
        }
      }
      w.i += passed;
      w.at += passed * 32;
    }
    runs += r.n > 0;
    r.end(out, job.cell(k), start, end);
    k++;
    if (!job.apart && k < job.mine.to) in = source_again<differences>(job, buckets.start(k));
  }
  return runs;
}

KERNEL CUSTOM_THREADS custom_runs(RUNS_PARAMETERS, u32* __restrict__ n, double* __restrict__ fields, u64 cells,
                                    double* __restrict__ found, u32* __restrict__ points) {
  RunsJob job = RUNS_JOB;
  if (!job.owns(tiles)) return;
  CustomStates out{n, fields, cells, found};
  u32 runs = job.differences ? custom_runs_of<true>(job, out) : custom_runs_of<false>(job, out);
  if (runs) atomic_add(points + job.mine.tile * 32 + job.mine.lane, runs);
}
