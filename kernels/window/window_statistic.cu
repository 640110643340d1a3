// window_statistic: window functions whose state takes one sample after the other, by
// Prometheus's operations: standard deviation and variance, the least-squares line,
// exponential smoothing, the time of the extreme.
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
//   windows share is mostly in a cache. Writes 16 a step, and adds to the series' counts.
// Operations per sample and window that holds it: 4 for the time of extremes, 7 for smoothing,
//   25 and 2 divisions for the variance, 40 and a division for the line.
#include "../values/aggregate.h"
#include "abreast.h"

// Policies of abreast alone: begin need not make them new.
template <Statistic kind>
struct Variance {
  double count = 0, mean = 0, mean_lost = 0, squares = 0, squares_lost = 0;
  DEVICE void begin(const Beginning&) {}
  DEVICE void add(u32, i64, double v) {
    count++;
    double delta = v - (mean + mean_lost);
    add_compensated(delta / count, mean, mean_lost);
    add_compensated(delta * (v - (mean + mean_lost)), squares, squares_lost);
  }
  DEVICE Found found(u32 n, i64, i64) const {
    double v = (squares + squares_lost) / count;
    return value_of_all(kind == kDeviation ? __builtin_sqrt(v) : v, n);
  }
};

template <Statistic kind>
struct Line {
  double ahead;  // seconds after the step that it is predicted for
  double x = 0, y = 0, xy = 0, xx = 0, x_lost = 0, y_lost = 0, xy_lost = 0, xx_lost = 0, initial = 0;
  i64 origin = 0;
  bool constant = true;
  DEVICE void begin(const Beginning& at) { origin = at.step; }
  DEVICE void add(u32 i, i64 t, double v) {
    if (i == 0) {
      initial = v;
      if (kind == kSlope) origin = t;
    } else if (v != initial) {
      constant = false;
    }
    double at = (double)(t - origin) / 1e3;
    add_compensated(at, x, x_lost);
    add_compensated(v, y, y_lost);
    add_compensated(at * v, xy, xy_lost);
    add_compensated(at * at, xx, xx_lost);
  }
  DEVICE Found found(u32 count, i64, i64) const {
    if (count < 2) return Found{kAbsent, count, count};
    double slope = 0, intercept = initial;
    if (constant) {
      if (infinite(initial)) return value_of_all(__builtin_nan(""), count);
    } else {
      double n = count, sx = x + x_lost, sy = y + y_lost, sxy = xy + xy_lost, sxx = xx + xx_lost;
      slope = (sxy - sx * sy / n) / (sxx - sx * sx / n);
      intercept = sy / n - slope * sx / n;
    }
    return value_of_all(kind == kSlope ? slope : slope * ahead + intercept, count);
  }
};

struct Smoothing {
  double factor, trend_factor;
  double before = 0, level = 0, trend = 0;
  DEVICE void begin(const Beginning&) {}
  DEVICE void add(u32 i, i64, double v) {
    if (i == 0) {
      level = v;
      return;
    }
    trend = i == 1 ? v - level : trend_factor * (level - before) + (1 - trend_factor) * trend;
    before = level;
    level = factor * v + (1 - factor) * (level + trend);
  }
  DEVICE Found found(u32 n, i64, i64) const { return Found{n < 2 ? kAbsent : as_bits(level), n, n}; }
};

template <Statistic kind>
struct TimeOf {
  double v = 0;
  i64 t = 0;
  DEVICE void begin(const Beginning&) {}
  DEVICE void add(u32 i, i64 at, double w) {
    if (i > 0 && v == v && !(kind == kTimeOfMin ? w <= v : w >= v)) return;
    v = w;
    t = at;
  }
  DEVICE Found found(u32 n, i64, i64) const { return value_of_all((double)t / 1000, n); }
};

KERNEL MAX_THREADS(128) window_statistic(WINDOW_PARAMETERS, Statistic kind, double param, double trend, i64 step,
                                         i64 step_interval) {
  WindowJob job = WINDOW_JOB;
  if (!job.owns(tiles)) return;
  Walker lo = job.begin();
  Results to = results_of(job, out, reads, counts);
  StepTimes at{step, step_interval};
  switch (kind) {
    case kVariance: abreast(job, at, lo, Variance<kVariance>{}, to); break;
    case kDeviation: abreast(job, at, lo, Variance<kDeviation>{}, to); break;
    case kSlope: abreast(job, at, lo, Line<kSlope>{param}, to); break;
    case kPrediction: abreast(job, at, lo, Line<kPrediction>{param}, to); break;
    case kSmoothing: abreast(job, at, lo, Smoothing{param, trend}, to); break;
    case kTimeOfMin: abreast(job, at, lo, TimeOf<kTimeOfMin>{}, to); break;
    default: abreast(job, at, lo, TimeOf<kTimeOfMax>{}, to);
  }
  finish(to);
}
