// window_ends: window functions that look at a window's first and last sample:
// the instant selector, rate, increase, delta, the first and the last value, their
// times, and how many samples there are.
//
// Grid: x tiles of 32 series, four a block of 128 threads; y stretches of steps.
// A thread owns one series in one stretch. It walks along the samples with two
// places, the window's start and its end, and writes a value a step.
// Reads times twice (the second time they are in a cache unless the window is
// long), values once and the first value of each window: 16 to 24 bytes a sample.
// Writes 16 bytes a step, and adds to the counts of the series: see
// WINDOW_PARAMETERS.
#include "series.h"

// The kinds; the numbers are those of kernels.Ends. From kExtrapolated on it is the
// difference of the two samples, extrapolated.
const u32 kInstant = 0;    // the last sample
const u32 kNewest = 1;     // the last sample of a range
const u32 kOldest = 2;     // the first one
const u32 kNewestTime = 3; // the time of the last, in seconds
const u32 kOldestTime = 4;
const u32 kNumber = 5;     // how many samples
const u32 kPresence = 6;   // 1
const u32 kExtrapolated = 7;
const u32 kCounter = 8;    // the same with resets made up for

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

// What is not extrapolated, of a window of at least one sample.
DEVICE double end_of(u32 kind, const Columns& c, const Walker& lo, u32 n, double last, i64 last_time) {
  switch (kind) {
    case kOldest: return c.values[lo.at];
    case kNewestTime: return (double)last_time / 1000;
    case kOldestTime: return (double)lo.t / 1000;
    case kNumber: return n;
    case kPresence: return 1;
    case kNewest: return last;
    default: return 0;
  }
}

KERNEL MAX_THREADS(128) window_ends(WINDOW_PARAMETERS, u32 kind, double seconds) {
  Stretch mine = my_stretch(steps, length);
  if (mine.tile >= tiles || mine.from >= steps) return;
  Columns c{rows, chunks, times, values};
  Walker lo{};
  seek(lo, c, mine.lane, first[mine.tile], first[mine.tile + 1], start + (i64)mine.from * interval - width);
  Walker hi = lo;
  u32 lo_index = 0, hi_index = 0, reset = 0;  // sample numbers from the stretch's first; the last reset's
  double hi_value = value_at(hi, c), first_value = 0, last_value = 0;
  u64 first_at = ~0ull;
  i64 last_time = 0;
  Shape shape{0, 0, 0, seconds, 0, 0, 0, 0};
  Results to = results_of(mine, steps, out, reads, counts);
  for (u32 k = mine.from; k < mine.to; k++) {
    i64 end = start + (i64)k * interval, seen = end - fresh_for(k, interval, width);
    u32 fresh = 0;
    while (hi.t <= end) {
      if (hi_value < last_value && hi_index > 0) reset = hi_index;
      if (hi.t > seen) fresh++;
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
    u32 n = hi_index - lo_index;
    if (kind == kInstant) {
      // A stale marker, which only an instant selector meets, is kAbsent.
      u64 result = n > 0 ? as_bits(last_value) : kAbsent;
      u32 read = result != kAbsent;
      emit(to, result, read, read, 0);
      continue;
    }
    u64 result = kAbsent;
    if (kind < kExtrapolated) {
      if (n > 0) result = as_bits(end_of(kind, c, lo, n, last_value, last_time));
    } else if (n >= 2) {
      if (first_at != lo.at) {
        first_at = lo.at;
        first_value = c.values[lo.at];
      }
      double increase = last_value - first_value;
      if (kind == kCounter && reset > lo_index) increase = with_resets(c, lo, n, increase);
      i64 lead = lo.t - (end - width), trail = end - last_time;
      if (n != shape.n || lead != shape.lead || trail != shape.trail) set_shape(shape, n, lead, trail, last_time - lo.t);
      double factor = shape.factor;
      // A counter is never negative: do not extrapolate below zero.
      if (kind == kCounter && increase > 0 && first_value >= 0) {
        double to_zero = shape.covered * (first_value / increase);
        if (to_zero < shape.to_start) factor = extrapolate(shape, to_zero);
      }
      result = as_bits(increase * factor);
    }
    emit(to, result, n, fresh, n);
  }
  finish(to);
}
