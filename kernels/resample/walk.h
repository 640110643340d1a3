// Runs of stored samples, one series a thread.
#pragma once
#include "run.h"

const u32 kSamplesAhead = 4;  // samples loaded at once

// Goes over the samples of this thread's series in order and has r take the runs that its buckets have:
//   begin()       before a run's first sample
//   add(t, v, at) a sample, or a difference, whose place in the columns is `at`
//   samples()     that it has
//   end(k, cell)  writes what there is of bucket k, of at least one sample
// Counts of samples go to n. Returns the number of runs.
template <bool differences, class R>
DEVICE u32 walk_runs(const RunsJob& job, u32* __restrict__ n, R&& r) {
  const Buckets& buckets = job.buckets;
  const Columns& c = job.c;
  Source in = source_from<differences>(job, buckets.start(job.mine.from));
  u32 runs = 0;
  for (u32 k = job.mine.from; k < job.mine.to;) {
    i64 start = buckets.start(k), end = buckets.end(k);
    if (in.at.t >= end) {
      u32 has = in.at.t == kNever ? job.mine.to : buckets.round_timestamp(in.at.t);
      for (; k < has && k < job.mine.to; k++) n[job.cell(k)] = 0;
      continue;
    }
    while (in.at.t < start) {
      in.value<differences>(value_at(in.at, c));
      next(in.at, c);
    }
    r.begin();
    while (in.at.t < end) {
      Walker& w = in.at;
      if (w.i + kSamplesAhead >= w.n) {
        double v = c.values[w.at];
        i64 t = w.t;
        u64 at = w.at;
        next(w, c);
        r.add(t, in.value<differences>(v), at);
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
          r.add(t[i], in.value<differences>(v[i]), w.at + i * 32);
          w.t = t[i + 1];
          passed++;
        }
      }
      w.i += passed;
      w.at += passed * 32;
    }
    u64 cell = job.cell(k);
    n[cell] = r.samples();
    if (r.samples() > 0) {
      r.end(k, cell);
      runs++;
    }
    k++;
    if (!job.apart && k < job.mine.to) in = source_again<differences>(job, buckets.start(k));
  }
  return runs;
}
