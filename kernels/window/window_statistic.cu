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
//   window, and goes through the window's rows from there, four at once.
// Bytes per sample: reads its value, 2 to 8, for every window that holds it, from a cache but for
//   the first; times where they are not regular. Writes 8 a step, and adds to the series' counts.
// Operations per sample and window that holds it, loaded and scaled: 25 for the time of extremes and for
//   smoothing; of plain values (plain.h) 43 for the variance, 38 for the line at regular times, whose sums
//   are the same for all windows with as many; of others 70 and 80; and 300 a window.
#include "job.h"
#include "in_turn.h"
#include "statistics.h"

// Has the policy P take the window that begins with the sample where w is. It says whether that found the value.
template <class P>
DEVICE bool found_by(const WindowJob& job, Walker& w, i64 end, const Beginning& at, u64& v, u32& n) {
  if (P::kRegular && (w.kind & kTimesOf) != kRegular) return false;
  InTurn<P> all;
  all.p.begin(at);
  each_run(job.c, w, end, all);
  n = all.n;
  v = kAbsent;
  if (n == 0) return true;
  if (!P::kAny && (!all.taken || n >= kMostDivisor)) return false;
  v = all.p.found(n, end - job.width, end).value;
  return !all.p.failed();
}

// The same by F's policy for plain values, if it has one: an int is nearer to 0 than a long.
template <class F, class P = typename F::Plain>
DEVICE bool plain_by(const WindowJob& job, Walker& w, i64 end, const Beginning& at, u64& v, u32& n, int) {
  return found_by<P>(job, w, end, at, v, n);
}

template <class F>
DEVICE bool plain_by(const WindowJob&, Walker&, i64, const Beginning&, u64&, u32&, long) {
  return false;
}

// What comes by the policy F of that window, and n, its samples.
template <class F>
DEVICE u64 value_by(const WindowJob& job, Walker& w, i64 end, const Beginning& at, u32& n) {
  u64 v = kAbsent;
  if (!plain_by<F>(job, w, end, at, v, n, 0)) found_by<OfAny<F>>(job, w, end, at, v, n);
  return v;
}

KERNEL ROWS_THREADS window_statistic(WINDOW_PARAMETERS, Statistic kind, double param, double trend, i64 step,
                                     i64 step_interval) {
  WindowJob job = WINDOW_JOB;
  if (!job.owns(tiles)) return;
  Walker w = job.begin();
  Results to = results_of(job, out, counts);
  forget_spread();
  NO_UNROLL for (u32 k = job.mine.from; k < job.mine.to; k++) {
    i64 end = job.end(k);
    advance(w, job.c, end - width);
    Beginning at{step + (i64)k * step_interval, param, trend, nullptr, kind};
    u64 v = kAbsent;
    u32 n = 0;
    switch (kind) {
#define CASE(F, CASES) \
  CASES: v = value_by<F>(job, w, end, at, n); break;
      STATISTICS(CASE)
#undef CASE
    }
    emit(to, v, n);
  }
  finish(to);
}
