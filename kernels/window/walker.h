// Series in columns, and a place among the samples of one: what the window kernels walk
// along. The columns are those of decode_series: tiles of 32 series by one position of
// chunks, so that the threads of a warp walk 32 series in step.
#pragma once
#include "../abi/series.h"

// The columns of a batch of series.
struct Columns {
  const u64* __restrict__ rows;        // of each tile the first
  const Decoded* __restrict__ chunks;  // 32 a tile
  const i64* __restrict__ times;
  const double* __restrict__ values;
};

// A place among the samples of one series.
struct Walker {
  u32 lane;
  u32 tile, end;  // where it is, and that behind the series' last
  u32 i, n;       // sample of the chunk's column
  u32 falls;      // the chunk's
  u64 at;         // its place in the columns
  i64 t;          // its time; kNever behind the last sample
  i64 until;      // the end of the chunk
};

// Goes to the first sample of tile w.tile or a later one.
DEVICE void enter(Walker& w, const Columns& c) {
  w.i = 0;
  for (; w.tile < w.end; w.tile++) {
    Decoded chunk = c.chunks[w.tile * 32 + w.lane];
    w.n = chunk.samples;
    if (w.n > 0) {
      w.until = chunk.end;
      w.falls = chunk.falls;
      w.at = c.rows[w.tile] * 32 + w.lane;
      w.t = c.times[w.at];
      return;
    }
  }
  w.n = 0;
  w.falls = 0;
  w.t = kNever;
}

// Goes n samples on, at most to the first of the next chunk.
DEVICE void pass(Walker& w, const Columns& c, u32 n) {
  w.i += n;
  w.at += (u64)n * 32;
  if (w.i < w.n) {
    w.t = c.times[w.at];
    return;
  }
  w.tile++;
  enter(w, c);
}

// Goes to the next sample; there must be one here.
DEVICE void next(Walker& w, const Columns& c) { pass(w, c, 1); }

// How many samples to pass at once where the one here is to be passed and so is every
// sample up to time t: the rest of the chunk, a few, or one. What it looks at does not
// wait for one another, nor for what pass loads.
const u32 kStride = 4;

DEVICE u32 run(const Walker& w, const Columns& c, i64 t) {
  if (w.until <= t) return w.n - w.i;
  return w.i + kStride < w.n && c.times[w.at + (kStride - 1) * 32] <= t ? kStride : 1;
}

// Goes on to the first sample after time t and returns how many it passes; `last` is
// the place of the last of them.
DEVICE u32 advance(Walker& w, const Columns& c, i64 t, u64& last) {
  u32 passed = 0;
  while (w.t <= t) {
    u32 n = run(w, c, t);
    last = w.at + (u64)(n - 1) * 32;
    pass(w, c, n);
    passed += n;
  }
  return passed;
}

// The value of the sample here, 0 behind the last one. It does not wait for the
// sample's time to be loaded.
DEVICE double value_at(const Walker& w, const Columns& c) { return w.n > 0 ? c.values[w.at] : 0; }

// Goes to the first sample after time t among the tiles first to end.
DEVICE void seek(Walker& w, const Columns& c, u32 lane, u32 first, u32 end, i64 t) {
  w.lane = lane;
  w.end = end;
  u32 lo = first, hi = end;
  while (lo < hi) {
    u32 mid = (lo + hi) / 2;
    if (c.chunks[mid * 32 + lane].end > t) {
      hi = mid;
    } else {
      lo = mid + 1;
    }
  }
  w.tile = lo;
  enter(w, c);
  if (w.t > t) return;
  u32 from = 1, to = w.n;
  while (from < to) {
    u32 mid = (from + to) / 2;
    if (c.times[w.at + (u64)mid * 32] > t) {
      to = mid;
    } else {
      from = mid + 1;
    }
  }
  w.i = from - 1;
  w.at += (u64)w.i * 32;
  next(w, c);
}

// Goes on to the first sample after time t and returns how many it passes; `last` is
// the place of the last of them. It looks at chunks rather than at samples, of which
// it tells whether one is less than the one before.
DEVICE u32 leap(Walker& w, const Columns& c, i64 t, u64& last, bool& falls) {
  falls = false;
  if (w.t > t) return 0;
  Walker from = w;
  seek(w, c, from.lane, from.tile, from.end, t);
  falls = c.chunks[from.tile * 32 + from.lane].falls;
  last = w.at - 32;
  if (w.tile == from.tile) return w.i - from.i;
  u32 n = from.n - from.i;
  last = from.at + (u64)(n - 1) * 32;
  for (u32 tile = from.tile + 1; tile <= w.tile && tile < w.end; tile++) {
    u32 place = tile * 32 + w.lane;
    u32 passed = tile < w.tile ? c.chunks[place].samples : w.i;
    if (passed == 0) continue;
    u64 at = c.rows[tile] * 32 + w.lane;
    falls = falls || c.chunks[place].falls || c.values[at] < c.values[last];
    last = at + (u64)(passed - 1) * 32;
    n += passed;
  }
  return n;
}
