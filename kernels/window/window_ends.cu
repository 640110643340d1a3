// window_ends: window functions that look at a window's first or last sample.
//
// Computes, of the first sample (t0, v0) and the last (t1, v1) of the n samples in
//   (start+k*interval-width, start+k*interval]: v1, v0, t1/1000, t0/1000, n, or 1 if n > 0;
//   of an instant selector v1 or t1/1000, unless v1 is a stale marker.
// Grid: x tiles of 32 series, four a block of 128 threads; y ranges of steps.
// A thread owns one series at `length` steps. It walks along the samples with two places, the
//   window's start and its end, and passes samples by fours.
// Bytes per sample, where a step passes four: reads 8 to 14: three of their times twice (the
//   second time they are in a cache unless the window is long), and one of their values.
//   Writes 8 a step, and adds to the series' counts.
// Operations per sample: about 10.
#include "ends.h"
#include "job.h"
#include "stretch.h"

// The ends of a window of stored samples.
struct StoredEnds {
  const Walker& lo;
  Sample last;
  DEVICE double oldest() const { return value_at(lo); }
  DEVICE double newest() const { return last.v; }
  DEVICE i64 oldest_time() const { return lo.t; }
  DEVICE i64 newest_time() const { return last.t; }
};

// The values of samples in a stretch, m steps from the first one on, written as they are.
DEVICE void samples_of(Strider s, u32 m, Results& out) {
  for (u32 k = 0; k < m; k += kStepsAtOnce) {
    Strider::Words words[kStepsAtOnce];
    UNROLL for (u32 i = 0; i < kStepsAtOnce; i++) words[i] = s.next(k + i < m);
    UNROLL for (u32 i = 0; i < kStepsAtOnce; i++) {
      if (k + i >= m) continue;
      u64 v = as_bits(s.value(words[i]));
      if (v == kAbsent) out.count.points--;
      out.next(k + i) = v;
    }
  }
}

KERNEL MAX_THREADS(128) window_ends(WINDOW_PARAMETERS, Ends kind) {
  WindowJob job = WINDOW_JOB;
  if (!job.owns(tiles)) return;
  const Columns& c = job.c;
  // An instant selector looks at the newest sample alone.
  bool instant = kind == kInstant || kind == kInstantTime, copies = kind == kInstant || kind == kNewest || kind == kOldest;
  Walker lo = job.begin(), hi = lo;
  u32 lo_index = 0, hi_index = 0;  // sample numbers from the first window's first
  Sample last{-kNever, 0};         // before hi
  if (job.leaps()) {
    bool falls;
    hi_index = leap(hi, c, job.end(job.mine.from), last, falls);
  }
  Results to = results_of(job, out, counts);
  u32 every = interval_of(interval);
  for (u32 k = job.mine.from; k < job.mine.to; store_line(to)) {
    for (u32 line = least(k + kLine, job.mine.to); k < line;) {
      i64 end = job.end(k);
      Stretch newest = copies ? stretch_of(hi, end, every) : Stretch{0, 0, 0, 0}, oldest = newest;
      if (newest.steps > 1 && !instant) oldest = stretch_of(lo, end - width, every);
      u32 m = least(newest.steps, least(oldest.steps, line - k));
      if (m > 1 && newest.age < width && newest.ahead == oldest.ahead) {
        u32 passed = (m - 1) * newest.ahead, hi_to = newest.i + 1 + passed, n = 0;
        samples_of(kind == kOldest ? strider(lo, oldest.i + 1, oldest.ahead) : strider(hi, newest.i, newest.ahead), m, to);
        hi_index += hi_to - hi.i;
        last = sample(hi, hi_to - 1);
        move_to(hi, hi_to);
        if (!instant) {
          u32 lo_to = oldest.i + 1 + (m - 1) * oldest.ahead;
          lo_index += lo_to - lo.i;
          move_to(lo, lo_to);
          n = hi_index - lo_index;
        }
        count(to, m, n);
        k += m;
        continue;
      }
      hi_index += advance(hi, c, end, last);
      if (!instant) lo_index += advance(lo, c, end - width);
      Found x = found_at_ends(kind, StoredEnds{lo, last}, instant ? last.t > end - width : hi_index - lo_index);
      note(to, x.value, x.held);
      k++;
    }
  }
  finish(to);
}
