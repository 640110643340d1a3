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
//   chunks in which they fall more than once.
// Bytes per sample, where a step passes four: reads 10 to 16: three of their times twice (the
//   second time they are in a cache unless the window is long), and two of their values.
//   Writes 8 a step, and adds to the series' counts.
// Operations per sample: about 12; 40 and 3 divisions a step.
#include "extrapolate.h"
#include "job.h"
#include "stretch.h"

// The increase over a window with many resets between its first and its last
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
  u32 index;                      // samples passed since the first window's first
  u32 reset, earlier, earliest;   // the last three that were found less than the one before; the last may be here
  double before, before_earlier;  // the values before the last two
  Sample last;                    // the last one passed
};

// Notes that sample i of the chunk, which is not behind the one here, is less than the one before it, v.
DEVICE void note_reset(Front& f, u32 i, double v) {
  f.earliest = f.earlier;
  f.earlier = f.reset;
  f.before_earlier = f.before;
  f.reset = f.index + i - f.w.i;
  f.before = v;
}

// Notes whether the value falls from the last sample passed to the one here.
DEVICE void watch(Front& f) {
  if (f.w.n > 0 && value_at(f.w) < f.last.v) note_reset(f, f.w.i, f.last.v);
}

// Goes on to the first sample after time t.
DEVICE void follow(Front& f, const Columns& c, i64 t, bool counter) {
  while (f.w.t <= t) {
    bool falls = counter && f.w.falls == kFallsOften;
    u32 i = falls ? f.w.i + 1 : f.w.until <= t ? f.w.n : first_behind(f.w, t), reset = f.w.falls;
    if (counter && f.w.i < reset && reset <= i) note_reset(f, reset, value(f.w, reset - 1));
    f.last = sample(f.w, i - 1);
    f.index += i - f.w.i;
    go(f.w, c, i);
    if (falls || (counter && f.w.i == 0)) watch(f);
  }
}

// Writes what comes of m windows of one shape. The values of their ends are loaded several at once;
// the last of them is returned. `before` is what a counter had before a reset in all of them, -0 where there is none.
DEVICE double differences(const Shape& shape, bool counter, Strider newer, Strider older, u32 m, double before, Results& out) {
  double last = 0;
  for (u32 k = 0; k < m; k += kStepsAtOnce) {
    Strider::Words to[kStepsAtOnce], from[kStepsAtOnce];
    UNROLL for (u32 i = 0; i < kStepsAtOnce; i++) {
      to[i] = newer.next(k + i < m);
      from[i] = older.next(k + i < m);
    }
    UNROLL for (u32 i = 0; i < kStepsAtOnce; i++) {
      if (k + i >= m) continue;
      last = newer.value(to[i]);
      double first = older.value(from[i]);
      out.next(k + i) = as_bits(extrapolated(shape, counter, first, last - first + before));
    }
  }
  return last;
}

KERNEL MAX_THREADS(128) window_rate(WINDOW_PARAMETERS, Flag counter, double seconds) {
  WindowJob job = WINDOW_JOB;
  if (!job.owns(tiles)) return;
  const Columns& c = job.c;
  Walker lo = job.begin();
  Front hi{lo, 0, 0, 0, 0, 0, 0, {0, 0}};
  u32 lo_index = 0;  // the number of lo's sample
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
  u32 every = interval_of(interval);
  for (u32 k = job.mine.from; k < job.mine.to; store_line(to)) {
    for (u32 line = least(k + kLine, job.mine.to); k < line;) {
      i64 end = job.end(k);
      bool falls = counter && hi.w.i < hi.w.falls;
      Stretch newest = stretch_of(hi.w, end, every, falls ? hi.w.falls : ~0u), oldest = stretch_of(lo, end - width, every);
      u32 m = falls && hi.w.falls == kFallsOften ? 0 : least(newest.steps, least(oldest.steps, line - k));
      u32 hi_to = hi.index + newest.i + 1 - hi.w.i, lo_to = lo_index + oldest.i + 1 - lo.i;
      u32 n = hi_to - lo_to;
      double before = -0.0;
      if (m > 1 && counter && hi.reset > lo_to) {  // steps with one reset, up to where it leaves their windows
        m = hi.earlier > lo_to ? 0 : least(m, (hi.reset - lo_to - 1) / oldest.ahead + 1);
        before = hi.before;
      }
      if (m > 1 && n >= 2 && newest.ahead == oldest.ahead) {
        i64 lead = (i64)lo.every - oldest.age, trail = newest.age;
        if (n != shape.n || lead != shape.lead || trail != shape.trail) set_shape(shape, n, lead, trail, width - lead - trail);
        Strider newer = strider(hi.w, newest.i, newest.ahead), older = strider(lo, oldest.i + 1, oldest.ahead);
        hi.last.v = differences(shape, counter, newer, older, m, before, to);
        count(to, m, n);
        u32 passed = (m - 1) * newest.ahead, left = (m - 1) * oldest.ahead;
        hi.index = hi_to + passed;
        lo_index = lo_to + left;
        k += m;
        hi.last.t = job.end(k - 1) - trail;
        move_to(hi.w, newest.i + 1 + passed);
        move_to(lo, oldest.i + 1 + left);
        continue;
      }
      follow(hi, c, end, counter);
      lo_index += advance(lo, c, end - width);
      n = hi.index - lo_index;
      u64 result = kAbsent;
      if (n >= 2) {
        double first_value = value_at(lo), increase = hi.last.v - first_value;
        if (counter && hi.earliest > lo_index) {
          increase = with_resets(c, lo, n, increase);
        } else if (counter) {
          if (hi.earlier > lo_index) increase += hi.before_earlier;
          if (hi.reset > lo_index && hi.reset < hi.index) increase += hi.before;
        }
        i64 lead = lo.t - (end - width), trail = end - hi.last.t;
        if (n != shape.n || lead != shape.lead || trail != shape.trail) set_shape(shape, n, lead, trail, hi.last.t - lo.t);
        result = as_bits(extrapolated(shape, counter, first_value, increase));
      }
      note(to, result, n);
      k++;
    }
  }
  finish(to);
}
