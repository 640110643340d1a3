// window_fold: window functions whose state takes the samples of a window one after
// the other, by Prometheus's operations: standard deviation and variance, the
// least-squares line, exponential smoothing, the time of the extreme.
//
// Grid: x tiles of 32 series, four a block of 128 threads; y stretches of steps.
// A thread owns one series in one stretch. It computes four neighbouring windows at
// once, so that a sample is loaded once for all of them.
// Reads times and values, 16 bytes for each sample and four windows that hold it;
// what windows share is mostly in a cache.
// Writes 16 bytes a step, and adds to the counts of the series: see
// WINDOW_PARAMETERS.
#include "abreast.h"
#include "sums.h"

// The kinds; the numbers are those of kernels.Folds.
const u32 kVariance = 0;
const u32 kDeviation = 1;
const u32 kSlope = 2;       // of the least-squares line
const u32 kPrediction = 3;  // its value `param` seconds after the step
const u32 kSmoothing = 4;   // by the factors `param` and `trend`
const u32 kTimeOfMin = 5;   // the last, of equal ones
const u32 kTimeOfMax = 6;

template <u32 kind>
struct Variance {
  double count, mean, mean_lost, squares, squares_lost;
  DEVICE Variance(const Asked&) : count(0), mean(0), mean_lost(0), squares(0), squares_lost(0) {}
  DEVICE void add(u32, i64, double v, const Asked&) {
    count++;
    double delta = v - (mean + mean_lost);
    add_compensated(delta / count, mean, mean_lost);
    add_compensated(delta * (v - (mean + mean_lost)), squares, squares_lost);
  }
  DEVICE u64 value(u32, const Asked&) const {
    double v = (squares + squares_lost) / count;
    return as_bits(kind == kDeviation ? __builtin_sqrt(v) : v);
  }
};

template <u32 kind>
struct Line {
  double x, y, xy, xx, x_lost, y_lost, xy_lost, xx_lost, initial;
  i64 origin;
  bool constant;
  DEVICE Line(const Asked& a)
      : x(0), y(0), xy(0), xx(0), x_lost(0), y_lost(0), xy_lost(0), xx_lost(0), initial(0), origin(a.step), constant(true) {}
  DEVICE void add(u32 i, i64 t, double v, const Asked&) {
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
  DEVICE u64 value(u32 count, const Asked& a) const {
    if (count < 2) return kAbsent;
    double slope = 0, intercept = initial;
    if (constant) {
      if (infinite(initial)) return as_bits(__builtin_nan(""));
    } else {
      double n = count, sx = x + x_lost, sy = y + y_lost, sxy = xy + xy_lost, sxx = xx + xx_lost;
      slope = (sxy - sx * sy / n) / (sxx - sx * sx / n);
      intercept = sy / n - slope * sx / n;
    }
    return as_bits(kind == kSlope ? slope : slope * a.param + intercept);
  }
};

struct Smoothing {
  double before, level, trend;
  DEVICE Smoothing(const Asked&) : before(0), level(0), trend(0) {}
  DEVICE void add(u32 i, i64, double v, const Asked& a) {
    if (i == 0) {
      level = v;
      return;
    }
    trend = i == 1 ? v - level : a.trend * (level - before) + (1 - a.trend) * trend;
    before = level;
    level = a.param * v + (1 - a.param) * (level + trend);
  }
  DEVICE u64 value(u32 count, const Asked&) const { return count < 2 ? kAbsent : as_bits(level); }
};

template <u32 kind>
struct TimeOf {
  double v;
  i64 t;
  DEVICE TimeOf(const Asked&) : v(0), t(0) {}
  DEVICE void add(u32 i, i64 at, double w, const Asked&) {
    if (i > 0 && v == v && !(kind == kTimeOfMin ? w <= v : w >= v)) return;
    v = w;
    t = at;
  }
  DEVICE u64 value(u32, const Asked&) const { return as_bits((double)t / 1000); }
};

KERNEL MAX_THREADS(128) window_fold(WINDOW_PARAMETERS, u32 kind, double param, double trend, i64 step, i64 step_interval) {
  Stretch mine = my_stretch(steps, length);
  if (mine.tile >= tiles || mine.from >= steps) return;
  Columns c{rows, chunks, times, values};
  Walker lo{};
  seek(lo, c, mine.lane, first[mine.tile], first[mine.tile + 1], start + (i64)mine.from * interval - width);
  Windows job{start, interval, width, step, step_interval, param, trend};
  Results to = results_of(mine, steps, out, reads, counts);
  switch (kind) {
    case kVariance: abreast<Variance<kVariance>>(c, mine, lo, job, to); break;
    case kDeviation: abreast<Variance<kDeviation>>(c, mine, lo, job, to); break;
    case kSlope: abreast<Line<kSlope>>(c, mine, lo, job, to); break;
    case kPrediction: abreast<Line<kPrediction>>(c, mine, lo, job, to); break;
    case kSmoothing: abreast<Smoothing>(c, mine, lo, job, to); break;
    case kTimeOfMin: abreast<TimeOf<kTimeOfMin>>(c, mine, lo, job, to); break;
    default: abreast<TimeOf<kTimeOfMax>>(c, mine, lo, job, to);
  }
  finish(to);
}
