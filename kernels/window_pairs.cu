// window_pairs: window functions that look at pairs of neighbouring samples: irate,
// idelta, changes, resets.
//
// Grid: x tiles of 32 series, four a block of 128 threads; y stretches of steps.
// A thread owns one series in one stretch. It walks along the samples with two
// places, the window's start and its end, and counts at each what it has passed. It
// begins a step early, to know what that has seen.
// Reads times and values, once for irate and idelta, else twice (the second time
// they are in a cache unless the window is long): 16 to 32 bytes a sample.
// Writes 16 bytes a step, and adds to the counts of the series: see
// WINDOW_PARAMETERS.
#include "series.h"

// The kinds; the numbers are those of kernels.Pairs.
const u32 kLastRate = 0;        // of the last two samples, a counter's
const u32 kLastDifference = 1;  // of the last two samples
const u32 kChanges = 2;
const u32 kResets = 3;

// Whether a pair counts. NaN is no different from NaN.
DEVICE bool counts_as(u32 kind, double before, double v) {
  return kind == kResets ? v < before : before != v && (before == before || v == v);
}

KERNEL MAX_THREADS(128) window_pairs(WINDOW_PARAMETERS, u32 kind) {
  Stretch mine = my_stretch(steps, length);
  if (mine.tile >= tiles || mine.from >= steps) return;
  Columns c{rows, chunks, times, values};
  Walker lo{};
  seek(lo, c, mine.lane, first[mine.tile], first[mine.tile + 1], start + (i64)mine.from * interval - width);
  Walker hi = lo;
  u32 lo_index = 0, hi_index = 0, seen = 0;  // sample numbers from the stretch's first
  u32 until_lo = 0, until_hi = 0;  // pairs up to the window's first sample, and up to its last
  double lo_value = value_at(lo, c), hi_value = lo_value, last = 0, before_last = 0;
  i64 last_time = 0, before_last_time = 0;
  Results to = results_of(mine, steps, out, reads, counts);
  for (u32 k = mine.from > 0 ? mine.from - 1 : 0; k < mine.to; k++) {
    i64 end = start + (i64)k * interval;
    while (hi.t <= end) {
      before_last = last;
      before_last_time = last_time;
      last = hi_value;
      last_time = hi.t;
      if (hi_index > 0 && counts_as(kind, before_last, last)) until_hi++;
      hi_index++;
      next(hi, c);
      hi_value = value_at(hi, c);
    }
    while (lo.t <= end - width) {
      lo_index++;
      next(lo, c);
      if (kind != kChanges && kind != kResets) continue;
      double v = value_at(lo, c);
      if (lo.n > 0 && counts_as(kind, lo_value, v)) until_lo++;
      lo_value = v;
    }
    u32 n = hi_index - lo_index, fresh = since(hi_index, lo_index, seen);
    seen = hi_index;
    if (k < mine.from) continue;
    u64 result = kAbsent;
    if (kind == kChanges || kind == kResets) {
      if (n > 0) result = as_bits(until_hi - until_lo);
    } else if (n >= 2) {
      double v = last;
      if (kind == kLastDifference || !(v < before_last)) v -= before_last;
      if (kind == kLastRate) v /= (double)(last_time - before_last_time) / 1000;
      result = as_bits(v);
    }
    emit(to, result, n, fresh, n);
  }
  finish(to);
}
