// window_pairs: window functions of pairs of neighbouring samples: irate, idelta, changes,
// resets.
//
// Computes, of the samples in (start+k*interval-width, start+k*interval]: the difference of
//   the last two values (of a counter that fell, the last), divided by that of their times in
//   seconds if it is a rate; or how many pairs differ, or fall.
// Grid: x tiles of 32 series, four a block of 128 threads; y ranges of steps.
// A thread owns one series at `length` steps. It walks along the samples with two places, the
//   window's start and its end, and counts at each what it has passed.
// Bytes per sample: reads 16 for irate and idelta, else 32: times and values twice (the second
//   time they are in a cache unless the window is long). Writes 8 a step, and adds to the
//   series' counts.
// Operations per sample: about 12, or 20.
#include "../abi/functions.h"
#include "job.h"

// Whether a pair counts. NaN is no different from NaN.
DEVICE bool counts_as(Pairs kind, double before, double v) {
  return kind == kResets ? v < before : before != v && (before == before || v == v);
}

KERNEL MAX_THREADS(128) window_pairs(WINDOW_PARAMETERS, Pairs kind) {
  WindowJob job = WINDOW_JOB;
  if (!job.owns(tiles)) return;
  const Columns& c = job.c;
  Walker lo = job.begin(), hi = lo;
  u32 lo_index = 0, hi_index = 0;  // sample numbers from the first window's first
  u32 until_lo = 0, until_hi = 0;  // pairs up to the window's first sample, and up to its last
  double lo_value = value_at(lo), hi_value = lo_value, last = 0, before_last = 0;
  i64 last_time = 0, before_last_time = 0;
  Results to = results_of(job, out, counts);
  for (u32 k = job.mine.from; k < job.mine.to; k++) {
    i64 end = job.end(k);
    while (hi.t <= end) {
      before_last = last;
      before_last_time = last_time;
      last = hi_value;
      last_time = hi.t;
      if (hi_index > 0 && counts_as(kind, before_last, last)) until_hi++;
      hi_index++;
      next(hi, c);
      hi_value = value_at(hi);
    }
    while (lo.t <= end - width) {
      lo_index++;
      next(lo, c);
      if (kind != kChanges && kind != kResets) continue;
      double v = value_at(lo);
      if (lo.n > 0 && counts_as(kind, lo_value, v)) until_lo++;
      lo_value = v;
    }
    u32 n = hi_index - lo_index;
    u64 result = kAbsent;
    if (kind == kChanges || kind == kResets) {
      if (n > 0) result = as_bits(until_hi - until_lo);
    } else if (n >= 2) {
      double v = last;
      if (kind == kLastDifference || !(v < before_last)) v -= before_last;
      if (kind == kLastRate) v /= (double)(last_time - before_last_time) / 1000;
      result = as_bits(v);
    }
    emit(to, result, n);
  }
  finish(to);
}
