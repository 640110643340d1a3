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

// The ends of a window of stored samples.
struct StoredEnds {
  const Walker& lo;
  Sample last;
  DEVICE double oldest() const { return value_at(lo); }
  DEVICE double newest() const { return last.v; }
  DEVICE i64 oldest_time() const { return lo.t; }
  DEVICE i64 newest_time() const { return last.t; }
};

KERNEL MAX_THREADS(128) window_ends(WINDOW_PARAMETERS, Ends kind) {
  WindowJob job = WINDOW_JOB;
  if (!job.owns(tiles)) return;
  const Columns& c = job.c;
  Walker lo = job.begin(), hi = lo;
  u32 lo_index = 0, hi_index = 0;  // sample numbers from the first window's first
  Sample last{0, 0};               // before hi
  if (job.leaps()) {
    bool falls;
    hi_index = leap(hi, c, job.end(job.mine.from), last, falls);
  }
  Results to = results_of(job, out, counts);
  for (u32 k = job.mine.from; k < job.mine.to; k++) {
    i64 end = job.end(k);
    hi_index += advance(hi, c, end, last);
    lo_index += advance(lo, c, end - width);
    Found x = found_at_ends(kind, StoredEnds{lo, last}, hi_index - lo_index);
    emit(to, x.value, x.held);
  }
  finish(to);
}
