// window_statistic: window functions whose state takes one sample after the other, by
// Prometheus's operations. Each is a policy: statistics.h lists them.
//
// Computes, of the samples (t, v) in (start+k*interval-width, start+k*interval]:
//   variance   sum (v - mean)^2 / n, by Welford's recurrence; deviation is its root
//   slope      (sum tv - sum t sum v / n) / (sum t^2 - (sum t)^2 / n), t in seconds
//   prediction slope * param + intercept, t counted from the step
//   smoothing  level' = param v + (1-param) (level + trend'), trend' = trend (level -
//              before) + (1-trend) trend'
//   time of    t of the last extreme, in seconds
// Grid: x tiles of 32 series, four a block of 128 threads; y ranges of steps.
// A thread owns one series at `length` steps. It walks along the samples to the start of each
//   window, and goes through the window's rows from there.
// Bytes per sample: reads its value, 2 to 8, for every window that holds it, from a cache but for
//   the first; times where they are not regular. Writes 8 a step, and adds to the series' counts.
// Operations per sample and window that holds it, loaded and scaled: 35 for the time of extremes
//   and for smoothing, 75 with a division for the variance, 100 for the line.
#include "job.h"
#include "rows.h"
#include "statistics.h"

// What comes by the policy F of the window that begins with the sample where w is, and n, its samples.
template <class F>
DEVICE u64 value_by(const WindowJob& job, Walker& w, u32 k, const Beginning& at, u32& n) {
  InTurn<F> all{F{}, 0};
  all.f.begin(at);
  i64 end = job.end(k);
  n = each_run(job.c, w, end, all);
  return n > 0 ? all.f.found(n, end - job.width, end).value : kAbsent;
}

KERNEL ROWS_THREADS window_statistic(WINDOW_PARAMETERS, Statistic kind, double param, double trend, i64 step,
                                     i64 step_interval) {
  WindowJob job = WINDOW_JOB;
  if (!job.owns(tiles)) return;
  Walker w = job.begin();
  Results to = results_of(job, out, counts);
  NO_UNROLL for (u32 k = job.mine.from; k < job.mine.to; k++) {
    advance(w, job.c, job.end(k) - width);
    Beginning at{step + (i64)k * step_interval, param, trend, nullptr};
    u64 v = kAbsent;
    u32 n = 0;
    switch (kind) {
#define CASE(F) \
  case k##F: v = value_by<F>(job, w, k, at, n); break;
      STATISTICS(CASE)
#undef CASE
    }
    emit(to, v, n);
  }
  finish(to);
}
