// window_over: sum, avg, min and max over time, where windows share little. Where they share
// much there is window_panes.
//
// Computes: out[k] = sum, mean, min or max of the samples in (start+k*interval-width,
//   start+k*interval], added in their order with Neumaier's compensation.
// Grid: x tiles of 32 series, four a block of 128 threads; y ranges of steps.
// A thread owns one series at `length` steps. It walks along the samples to the start of each
//   window, and goes through the window's rows from there.
// Bytes per sample: reads its value, 2 to 8, for every window that holds it, from a cache but for the
//   first; times only where they are not regular. Writes 8 a step, and adds to the series' counts.
// Operations per sample and window that holds it: 4 for extremes of stored integers and for sums of
//   integers, 14 for sums of decimals, 10 and 5 for sums and extremes of whole values.
#include "job.h"
#include "over.h"

// The sum or mean of the samples from w on, n of them, where sums are not finite.
DEVICE double with_care(const WindowJob& job, Walker w, u32 n, Operator op) {
  AnyOver all{op, State{0, 0, 0, 0}};
  for (u32 i = 0; i < n; i++, next(w, job.c)) all.add(i, 0, value_at(w));
  return as_double(all.found(n, 0, 0).value);
}

KERNEL ROWS_THREADS window_over(WINDOW_PARAMETERS, Operator op) {
  WindowJob job = WINDOW_JOB;
  if (!job.owns(tiles)) return;
  Walker w = job.begin();
  Results to = results_of(job, out, counts);
  for (u32 k = job.mine.from; k < job.mine.to; k++) {
    i64 end = job.end(k);
    advance(w, job.c, end - width);
    OverRows all(op);
    u32 n = each_run(job.c, w, end, all);
    u64 v = kAbsent;
    if (n > 0) v = as_bits(all.failed() ? with_care(job, w, n, op) : all.result());
    emit(to, v, n);
  }
  finish(to);
}
