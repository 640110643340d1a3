// Runs of stored samples, one series a thread.
#pragma once
#include "run.h"

const u32 kSamplesAhead = 4;  // samples loaded at once

// The samples of a series in some tiles of chunks.
NOINLINE u32 samples_in(Columns c, u32 lane, u32 from, u32 to) {
  u32 n = 0;
  for (u32 k = from; k < to; k++) n += c.samples(k, lane);
  return n;
}

// The number of a sample among all of its series, of one sample after the other.
struct Rank {
  u32 tile, before;  // tiles of chunks before that one have so many samples

  DEVICE u32 of(const Walker& w, const Columns& c) {
    if (tile < w.tile) before += samples_in(c, w.lane, tile, w.tile);
    tile = w.tile;
    return before + w.i;
  }
};

// Goes over the samples of this thread's series in order and has r take the runs that its buckets have:
//   begin()       before a run's first sample
//   enter(tile)   samples are from here on those of a chunk in that tile of chunks
//   add(t, v, i)  a sample, or a difference, which has number i in its chunk
//   samples()     that it has
//   end(k, cell)  writes what there is of bucket k, of at least one sample
// Counts of samples go to n. Returns the number of runs.
template <bool differences, class R>
DEVICE u32 walk_runs(const RunsJob& job, u32* __restrict__ n, R&& r) {
  const Buckets& buckets = job.buckets;
  const Columns& c = job.c;
  Source in = source_from<differences>(job, buckets.start(job.mine.from));
  Rank rank{job.first[job.mine.tile], 0};
  u32 runs = 0;
  for (u32 k = job.mine.from; k < job.mine.to;) {
    i64 start = buckets.start(k), end = buckets.end(k);
    if (in.at.t >= end) {
      u32 has = in.at.t == kNever ? job.mine.to : buckets.round_timestamp(in.at.t);
      for (; k < has && k < job.mine.to; k++) {
        n[job.cell(k)] = 0;
        job.store_in_row(k, 0, 0);
      }
      continue;
    }
    while (in.at.t < start) {
      in.value<differences>(value_at(in.at));
      next(in.at, c);
    }
    u32 begin = job.in_rows ? rank.of(in.at, c) : 0;
    r.begin();
    r.enter(in.at.tile);
    while (in.at.t < end) {
      Walker& w = in.at;
      if (w.i + kSamplesAhead >= w.n) {
        double v = value_at(w);
        i64 t = w.t;
        u32 i = w.i;
        next(w, c);
        r.add(t, in.value<differences>(v), i);
        if (w.i == 0) r.enter(w.tile);
        continue;
      }
      i64 t[kSamplesAhead + 1];
      double v[kSamplesAhead];
      t[0] = w.t;
      UNROLL for (u32 i = 0; i < kSamplesAhead; i++) {
        v[i] = value(w, w.i + i);
        t[i + 1] = time(w, w.i + i + 1);
      }
      u32 passed = 0;
      UNROLL for (u32 i = 0; i < kSamplesAhead; i++) {
        if (t[i] < end) {
          r.add(t[i], in.value<differences>(v[i]), w.i + i);
          w.t = t[i + 1];
          passed++;
        }
      }
      w.i += passed;
    }
    u64 cell = job.cell(k);
    n[cell] = r.samples();
    job.store_in_row(k, begin, r.samples());
    if (r.samples() > 0) {
      r.end(k, cell);
      runs++;
    }
    k++;
    if (!job.apart && k < job.mine.to) in = source_again<differences>(job, buckets.start(k));
  }
  return runs;
}
