// window_rate: window functions of the difference between a window's first and last sample,
// extrapolated: rate, increase, delta.
//
// Computes, of the samples (t0, v0) to (t1, v1) in (start+k*interval-width,
//   start+k*interval]: (v1 - v0 + what a counter had before each of its resets) * factor,
//   where factor = (t1 - t0 + to the window's start + to its end) / (t1 - t0), as
//   extrapolate.h says, and by `seconds` unless that is 0.
// Grid: x tiles of 32 series, four a block of 128 threads; y ranges of steps.
// A thread owns one series at `length` steps. It walks along the samples with two places, the
//   window's start and its end. It passes samples by fours, and looks at all values only of
//   chunks in which they fall.
// Bytes per sample, where a step passes four: reads 10 to 16: three of their times twice (the
//   second time they are in a cache unless the window is long), and two of their values.
//   Writes 8 a step, and adds to the series' counts.
// Operations per sample: about 12; 40 and 3 divisions a step.
#include "extrapolate.h"
#include "job.h"

// The increase over a window, with the resets between its first and its last
// sample made up for: n samples from w on.
DEVICE double with_resets(const Columns& c, Walker w, u32 n, double increase) {
  double before = value_at(w);
  for (u32 i = 1; i < n; i++) {
    next(w, c);
    double v = value_at(w);
    if (v < before) increase += before;
    before = v;
  }
  return increase;
}

// The end of a window: the place of its last sample, and where it goes on.
struct Front {
  Walker w;
  u32 index;    // samples passed since the first window's first
  u32 reset;    // the number of the last one found that is less than the one before
  Sample last;  // the last one passed
};

// Notes whether the value falls from the last sample passed to the one here.
DEVICE void watch(Front& f) {
  if (f.w.n > 0 && value_at(f.w) < f.last.v) f.reset = f.index;
}

// Goes on to the first sample after time t.
DEVICE void follow(Front& f, const Columns& c, i64 t, bool counter) {
  while (f.w.t <= t) {
    bool falls = counter && f.w.falls;
    u32 i = falls ? f.w.i + 1 : f.w.until <= t ? f.w.n : first_behind(f.w, t);
    f.last = sample(f.w, i - 1);
    f.index += i - f.w.i;
    go(f.w, c, i);
    if (falls || (counter && f.w.i == 0)) watch(f);
  }
}

KERNEL MAX_THREADS(128) window_rate(WINDOW_PARAMETERS, Flag counter, double seconds) {
  WindowJob job = WINDOW_JOB;
  if (!job.owns(tiles)) return;
  const Columns& c = job.c;
  Walker lo = job.begin();
  Front hi{lo, 0, 0, {0, 0}};
  u32 lo_index = 0, held = ~0u;  // sample numbers; the latter has first_value
  double first_value = 0;
  if (job.leaps()) {
    Front far = hi;
    bool falls;
    far.index = leap(far.w, c, job.end(job.mine.from), far.last, falls);
    if (far.index > 0 && !(counter && falls)) {
      hi = far;
      if (counter) watch(hi);
    }
  }
  Shape shape{0, 0, 0, seconds, 0, 0, 0, 0};
  Results to = results_of(job, out, counts);
  for (u32 k = job.mine.from; k < job.mine.to; k++) {
    i64 end = job.end(k);
    follow(hi, c, end, counter);
    lo_index += advance(lo, c, end - width);
    u32 n = hi.index - lo_index;
    u64 result = kAbsent;
    if (n >= 2) {
      if (held != lo_index) {
        held = lo_index;
        first_value = value_at(lo);
      }
      i64 last_time = hi.last.t;
      double increase = hi.last.v - first_value;
      if (counter && hi.reset > lo_index) increase = with_resets(c, lo, n, increase);
      i64 lead = lo.t - (end - width), trail = end - last_time;
      if (n != shape.n || lead != shape.lead || trail != shape.trail) set_shape(shape, n, lead, trail, last_time - lo.t);
      result = as_bits(extrapolated(shape, counter, first_value, increase));
    }
    emit(to, result, n);
  }
  finish(to);
}
