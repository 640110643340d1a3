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
// A thread owns one series at `length` steps, and computes four neighbouring windows at once.
// Bytes per sample: reads 16 (time and value) for every four windows that hold it; what
//   windows share is mostly in a cache. Writes 8 a step, and adds to the series' counts.
// Operations per sample and window that holds it: 4 for the time of extremes, 7 for smoothing,
//   25 and 2 divisions for the variance, 40 and a division for the line.
#include "abreast.h"
#include "statistics.h"

KERNEL MAX_THREADS(128) window_statistic(WINDOW_PARAMETERS, Statistic kind, double param, double trend, i64 step,
                                         i64 step_interval) {
  WindowJob job = WINDOW_JOB;
  if (!job.owns(tiles)) return;
  Walker lo = job.begin();
  Results to = results_of(job, out, counts);
  Call call{step, step_interval, param, trend};
#define CASE(F) \
  case k##F: abreast(job, call, lo, F{}, to); break;
  switch (kind) { STATISTICS(CASE) }
#undef CASE
  finish(to);
}
