// Runs of stored samples, one series a thread.
#pragma once
#include "run.h"

const u32 kSamplesAhead = 8;  // samples loaded at once

// Loads values of a chunk as they are stored: of samples i to end, eight at most. Integers u become 2^52 + u.
DEVICE void load_stored(const Walker& w, u32 i, u32 end, double (&v)[kSamplesAhead]) {
  u32 values = w.kind & kValuesOf, left = end - i;
  auto of_integer = [](u32 u) { return as_double(0x433ull << 52 | u); };
  if (values == kWhole) {
    const double* from = (const double*)w.values + (u64)i * 32;
    UNROLL for (u32 j = 0; j < kSamplesAhead; j++) {
      if (j < left) v[j] = load_once(from + j * 32);
    }
  } else if (values == kHalf) {
    const u32* from = (const u32*)w.values + (u64)i * 32;
    UNROLL for (u32 j = 0; j < kSamplesAhead; j++) {
      if (j < left) v[j] = of_integer(load_once(from + j * 32));
    }
  } else {
    const unsigned short* from = (const unsigned short*)w.values + (u64)i * 32;
    UNROLL for (u32 j = 0; j < kSamplesAhead; j++) {
      if (j < left) v[j] = of_integer(load_once(from + j * 32));
    }
  }
}

// Has eight rows from i on come nearer, of which each lane asks for its 32nd part.
DEVICE void prefetch_rows(const Walker& w, u32 i) {
  const u32 rows_of_lane = 32 / kSamplesAhead;
  if (i + w.lane / rows_of_lane >= w.n) return;
  prefetch(w.values + ((u64)i * 32 + w.lane * (kSamplesAhead - 1)) * value_bytes(w.kind));
}

// Unpacks half of them, from j on. It makes what value() in ../window/walker.h does: without 2^52 an integer need
// not be converted, which is slow.
DEVICE void unpack(const Walker& w, double unit, double inverse, u32 j, double (&v)[kSamplesAhead]) {
  if ((w.kind & kValuesOf) == kWhole) return;
  UNROLL for (u32 i = 0; i < kSamplesAhead / 2; i++) v[j + i] = w.base + (v[j + i] - 0x1p52);
  if (!(w.kind & kDecimals)) return;
  UNROLL for (u32 i = 0; i < kSamplesAhead / 2; i++) v[j + i] = of_decimal(v[j + i], unit, inverse);
}

// Has r take samples i to end of the chunk.
template <bool differences, class R>
DEVICE void take_samples(Source& in, u32 end, R& r) {
  const Walker& w = in.at;
  double unit = 1, inverse = 1;
  if (w.kind & kDecimals) unit = w.chunk->unit, inverse = w.chunk->inverse;
  r.from(w.t);
  NO_UNROLL for (u32 i = w.i; i < end;) {
    u32 behind = i + kSamplesAhead - (R::blocks ? r.samples() % kSamplesAhead : 0);
    if (behind > end) behind = end;
    double v[kSamplesAhead];
    i64 t[kSamplesAhead] = {};
    load_stored(w, i, behind, v);
    prefetch_rows(w, i + kSamplesAhead);
    UNROLL for (u32 j = 0; j < kSamplesAhead; j++) {
      if (R::timed && i + j < behind) t[j] = time(w, i + j);
    }
    UNROLL for (u32 j = 0; j < kSamplesAhead; j++) {
      if (i + j >= behind) break;
      if (j % (kSamplesAhead / 2) == 0) unpack(w, unit, inverse, j, v);
      double d = in.value<differences>(v[j]);
      if (j == 0 && r.samples() == 0) r.first(d);
      r.add(t[j], d);
    }
    r.added(behind - i);
    i = behind;
  }
  if (R::ends) r.upto(time(w, end - 1));
}

// The number of the first sample at time t or behind it of a chunk whose times are not regular, of samples i to
// n, where sample i is before t and the chunk does not end before it. Mostly a bucket has as many samples as the
// one before, `usual`: then it costs one wait.
NOINLINE u32 search_times(Walker w, i64 t, u32 usual) {
  u32 i = w.i + usual;
  if (usual > 0 && i < w.n && time(w, i - 1) < t && time(w, i) >= t) return i;
  return first_behind(w, t - 1);
}

// The number of the first sample of the chunk at time t or behind it, where the sample here is before t.
DEVICE u32 first_from(const Walker& w, i64 t, u32 usual) {
  if (w.until < t) return w.n;
  if ((w.kind & kTimesOf) != kRegular) return search_times(w, t, usual);
  u32 i = (u32)(t - 1 - w.begin) / w.every + 1;
  return i < w.n ? i : w.n;
}

// Goes over the samples of this thread's series in order and has r take the runs that its buckets have:
//   begin()           before a run's first sample
//   from(t)           the next sample is at time t
//   first(v)          the value of the first one, before that is added
//   add(t, v)         a sample, or a difference; its time is loaded only for R::timed
//   added(many)       so many were added: for R::blocks up to a multiple of kSamplesAhead of a run, or fewer
//   upto(t)           the last one was at time t, for R::ends
//   samples()         that it has
//   end(k)            ends bucket k, which may have no samples; all lanes of a warp end theirs
// Returns the number of runs. How many samples of a chunk a bucket has is known before they are added: of
// regular times by a division.
template <bool differences, class R>
DEVICE u32 walk_runs(const RunsJob& job, R&& r) {
  const Buckets& buckets = job.buckets;
  Source in{};
  u32 runs = 0, usual = 0;
  for (u32 k = job.mine.from; k < job.mine.to; k++) {
    i64 start = buckets.start(k), end = buckets.end(k);
    if (k == job.mine.from || !job.apart) in = source_from<differences>(job, start);
    Walker& w = in.at;
    r.begin();
    while (w.t < end) {
      bool inside = w.t >= start;
      u32 upto = first_from(w, inside ? end : start, usual);
      if (inside) {
        take_samples<differences>(in, upto, r);
      } else if (differences) {
        in.before = value(w, upto - 1);
      }
      go(w, job.c, upto);
    }
    if (r.samples() > 0) usual = r.samples(), runs++;
    r.end(k);
  }
  return runs;
}
