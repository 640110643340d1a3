// window_rate: window functions of the difference between a window's first and last
// sample, extrapolated: rate, increase, delta.
//
// Grid: x tiles of 32 series, four a block of 128 threads; y stretches of steps.
// A thread owns one series in one stretch. It walks along the samples with two
// places, the window's start and its end, and writes a value a step. It begins a
// step early, to know what that has seen.
// Reads times twice (the second time they are in a cache unless the window is
// long), values once and the first value of each window: 16 to 24 bytes a sample.
// Writes 16 bytes a step, and adds to the counts of the series: see
// WINDOW_PARAMETERS.
#include "series.h"

// What a window is extrapolated by: the operations, and their order, are those of
// Prometheus's extrapolatedRate.
struct Shape {
  u32 n;
  i64 lead, trail;  // ms
  double seconds;   // that the result is divided by, or 0
  double covered, to_start, to_end, factor;
};

DEVICE double extrapolate(const Shape& s, double to_start) {
  double f = (s.covered + to_start + s.to_end) / s.covered;
  return s.seconds != 0 ? f / s.seconds : f;
}

DEVICE void set_shape(Shape& s, u32 n, i64 lead, i64 trail, i64 covered) {
  s.n = n;
  s.lead = lead;
  s.trail = trail;
  s.covered = (double)covered / 1000;
  double spacing = s.covered / (double)(n - 1);
  double threshold = spacing * 1.1;
  s.to_start = (double)lead / 1000;
  if (s.to_start >= threshold) s.to_start = spacing / 2;
  s.to_end = (double)trail / 1000;
  if (s.to_end >= threshold) s.to_end = spacing / 2;
  s.factor = extrapolate(s, s.to_start);
}

// The increase over a window, with the resets between its first and its last
// sample made up for: n samples from w on.
DEVICE double with_resets(const Columns& c, Walker w, u32 n, double increase) {
  double before = c.values[w.at];
  for (u32 i = 1; i < n; i++) {
    next(w, c);
    double v = c.values[w.at];
    if (v < before) increase += before;
    before = v;
  }
  return increase;
}

KERNEL MAX_THREADS(128) window_rate(WINDOW_PARAMETERS, u32 counter, double seconds) {
  Stretch mine = my_stretch(steps, length);
  if (mine.tile >= tiles || mine.from >= steps) return;
  Columns c{rows, chunks, times, values};
  Walker lo{};
  seek(lo, c, mine.lane, first[mine.tile], first[mine.tile + 1], start + (i64)mine.from * interval - width);
  Walker hi = lo;
  u32 lo_index = 0, hi_index = 0, seen = 0, reset = 0;  // sample numbers from the stretch's first; the last reset's
  u32 k = mine.from > 0 ? mine.from - 1 : 0;
  double first_value = 0, last_value = 0;
  u64 first_at = ~0ull;
  i64 last_time = 0;
  if (mine.from > 0 && is_wide(interval, width)) {
    u64 last;
    bool falls;
    Walker far = lo;
    u32 passed = leap(far, c, start + (i64)k * interval, last, falls);
    if (passed > 0 && !(counter && falls)) {
      hi = far;
      hi_index = passed;
      last_value = c.values[last];
      last_time = c.times[last];
    }
  }
  double hi_value = value_at(hi, c);
  Shape shape{0, 0, 0, seconds, 0, 0, 0, 0};
  Results to = results_of(mine, steps, out, reads, counts);
  for (; k < mine.to; k++) {
    i64 end = start + (i64)k * interval;
    while (hi.t <= end) {
      if (hi_value < last_value && hi_index > 0) reset = hi_index;
      last_value = hi_value;
      last_time = hi.t;
      hi_index++;
      next(hi, c);
      hi_value = value_at(hi, c);
    }
    while (lo.t <= end - width) {
      lo_index++;
      next(lo, c);
    }
    u32 n = hi_index - lo_index, fresh = since(hi_index, lo_index, seen);
    seen = hi_index;
    if (k < mine.from) continue;
    u64 result = kAbsent;
    if (n >= 2) {
      if (first_at != lo.at) {
        first_at = lo.at;
        first_value = c.values[lo.at];
      }
      double increase = last_value - first_value;
      if (counter && reset > lo_index) increase = with_resets(c, lo, n, increase);
      i64 lead = lo.t - (end - width), trail = end - last_time;
      if (n != shape.n || lead != shape.lead || trail != shape.trail) set_shape(shape, n, lead, trail, last_time - lo.t);
      double factor = shape.factor;
      // A counter is never negative: do not extrapolate below zero.
      if (counter && increase > 0 && first_value >= 0) {
        double to_zero = shape.covered * (first_value / increase);
        if (to_zero < shape.to_start) factor = extrapolate(shape, to_zero);
      }
      result = as_bits(increase * factor);
    }
    emit(to, result, n, fresh, n);
  }
  finish(to);
}
