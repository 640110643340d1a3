// Series in columns: what the window kernels walk along. The columns are those of
// decode_series: tiles of 32 series by one position of chunks, so that the threads
// of a warp walk 32 series in step.
#pragma once
#include "shim.h"

const i64 kNever = 0x7fffffffffffffffll;

// What decode_series says of a chunk. Mirrors kernels.Decoded.
struct Decoded {
  i64 end;    // the time of its last sample, stale or not; kNever if it has none
  u32 kept;   // samples in its column
  u32 falls;  // whether one of them is less than the one before
};

// Mirrors kernels.SeriesCounts: what the sample limit needs of a series.
struct SeriesCounts {
  u32 points;  // steps with a value
  u32 most;    // samples in its largest window
  u32 last;    // samples in the window of the last step
};

// A place in a window's output where the series has no value. No window function
// has a stale marker for a value, since they read none.
const u64 kAbsent = 0x7ff0000000000002ull;

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
  u32 i, n;       // sample of the chunk's kept ones
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
    w.n = chunk.kept;
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

// Goes to the next sample; there must be one here.
DEVICE void next(Walker& w, const Columns& c) {
  w.at += 32;
  if (++w.i < w.n) {
    w.t = c.times[w.at];
    return;
  }
  w.tile++;
  enter(w, c);
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
    u32 passed = tile < w.tile ? c.chunks[place].kept : w.i;
    if (passed == 0) continue;
    u64 at = c.rows[tile] * 32 + w.lane;
    falls = falls || c.chunks[place].falls || c.values[at] < c.values[last];
    last = at + (u64)(passed - 1) * 32;
    n += passed;
  }
  return n;
}

// What a thread of a window kernel owns: a series and a stretch of steps.
struct Stretch {
  u32 tile;       // of series
  u32 lane;       // in it
  u32 from, to;   // steps
};

// The stretch of this thread in a grid of tiles of series by stretches of `length` steps.
DEVICE Stretch my_stretch(u32 steps, u32 length) {
  u32 id = block_x() * threads_x() + thread_x();
  u32 from = block_y() * length;
  u32 to = from + length;
  return Stretch{id / 32, id % 32, from, to < steps ? to : steps};
}

// What every window kernel is given: a batch of series (tiles of them, and of each
// the tiles of chunks), the windows (start+k*interval-width, start+k*interval] of
// so many steps, ms, of which a thread computes `length`, and where results go:
//   out    a value for each place of a tile and step, kAbsent where there is none
//   reads  the same of samples in the window: lower half all, upper half those that
//          no earlier step's window has
//   counts a SeriesCounts a series, to be added to
#define WINDOW_PARAMETERS                                                                                              \
  const u32 *__restrict__ first, u32 tiles, const u64 *__restrict__ rows, const Decoded *__restrict__ chunks,          \
      const i64 *__restrict__ times, const double *__restrict__ values, i64 start, i64 interval, u32 steps, i64 width, \
      u32 length, u64 *__restrict__ out, u64 *__restrict__ reads, SeriesCounts *__restrict__ counts

// Where a thread of a window kernel writes what it finds for its steps, in order.
struct Results {
  u64* __restrict__ out;
  u64* __restrict__ reads;
  SeriesCounts* __restrict__ counts;
  u32 left;  // steps up to the last of all, that one included
  SeriesCounts count;
};

DEVICE Results results_of(const Stretch& mine, u32 steps, u64* out, u64* reads, SeriesCounts* counts) {
  u64 at = ((u64)mine.tile * steps + mine.from) * 32 + mine.lane;
  return Results{out + at, reads + at, counts + mine.tile * 32 + mine.lane, steps - mine.from, SeriesCounts{0, 0, 0}};
}

// Writes the next step: bits of a value, samples read, and of them those that no
// earlier step has read. n counts the samples of the window for the sample limit.
DEVICE void emit(Results& r, u64 value, u32 read, u32 fresh, u32 n) {
  store_streaming(r.out, value);
  store_streaming(r.reads, (u64)fresh << 32 | read);
  r.out += 32;
  r.reads += 32;
  if (value != kAbsent) r.count.points++;
  if (n > r.count.most) r.count.most = n;
  if (--r.left == 0) r.count.last = n;
}

DEVICE void finish(const Results& r) {
  if (r.count.points) atomic_add(&r.counts->points, r.count.points);
  if (r.count.most) atomic_max(&r.counts->most, r.count.most);
  if (r.count.last) atomic_add(&r.counts->last, r.count.last);
}

// The number of samples up to hi that come neither before lo nor before the end of
// the earlier step, at `seen`.
DEVICE u32 since(u32 hi, u32 lo, u32 seen) { return hi - (lo > seen ? lo : seen); }

// Whether a stretch's first window is worth a leap: one that holds many intervals.
DEVICE bool is_wide(i64 interval, i64 width) { return width / 16 > interval; }
