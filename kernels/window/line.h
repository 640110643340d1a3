// The least-squares line: its slope, and its value `param` seconds after the step.
#pragma once
#include "extrapolate.h"
#include "recent.h"

// The sums of times, in seconds, and of their squares.
struct TimeSums {
  double x = 0, xx = 0, x_lost = 0, xx_lost = 0;
  DEVICE void add(double at) {
    add_plain(at, x, x_lost);
    add_plain(at * at, xx, xx_lost);
  }
};

// Those of n times, one every so many ms, the first of which is `first` from the origin.
NOINLINE TimeSums even_sums(i64 first, u32 every, u32 n) {
  TimeSums all;
  NO_UNROLL for (u32 i = 0; i < n; i++) all.add(seconds_of(first + (i64)((u64)i * every)));
  return all;
}

// What a line needs of them: the sum, and n times the variance.
struct Spread {
  i64 first;
  u32 every, n;
  double x, xx;
};

DEVICE Spread spread_of(const TimeSums& s, i64 first, u32 every, u32 n) {
  double x = s.x + s.x_lost;
  return Spread{first, every, n, x, s.xx + s.xx_lost - quotient_of_any(x * x, n)};
}

// That of the thread's last window: most windows of a series have as many samples, as far apart.
template <u32 threads = 128>
DEVICE Spread& last_spread() {
  SHARED Spread all[threads];
  return all[thread_x()];
}

template <u32 threads = 128>
DEVICE void forget_spread() {
  last_spread<threads>().n = 0;
}

// What a line needs of values.
struct LineSums {
  double y = 0, xy = 0, y_lost = 0, xy_lost = 0, initial = 0;
  u64 differs = 0;   // bits of values that are not the first's
  double ahead = 0;  // seconds after the origin that a value is predicted for
  i64 origin = 0;    // of times, ms: the step, or the first sample's
  bool predicts = false;
  DEVICE void begin(const Beginning& at) {
    origin = at.step;
    ahead = at.param;
    predicts = at.kind == kPrediction;
  }
  DEVICE void begin_with(i64 t) {
    if (!predicts) origin = t;
  }
  DEVICE bool constant() const {
    return initial == initial && (differs == 0 || (initial == 0 && differs == 1ull << 63));
  }
  // The slope, or the value that is predicted; quotient(d, n) is d/n.
  template <class Q>
  DEVICE double result(const Spread& s, const Q& quotient) const {
    double slope = 0, intercept = initial, n = s.n;
    if (!constant()) {
      double sy = y + y_lost, sxy = xy + xy_lost;
      slope = (sxy - quotient(s.x * sy, n)) / s.xx;
      if (predicts) intercept = quotient(sy, n) - quotient(slope * s.x, n);
    }
    return predicts ? slope * ahead + intercept : slope;
  }
};

// Of plain values at regular times, without gaps, and with `few` of at most kRecent of them. It fails where the value
// is not finite.
template <bool few>
struct PlainLine : LineSums {
  static const bool kAny = false, kRegular = true;
  typedef double Time;  // seconds from the origin
  i64 first = 0;        // ms from the origin to the first sample
  u32 every = 0;
  double ahead_ms = 0;       // from the origin to the next one
  double at = 0, apart = 0;  // the same in seconds, and what is between two
  bool eighths = false;      // these are multiples of 1/8, as are their sums
  bool finite = true;
  DEVICE void starts(const Recent& r, double v, bool constant) { starts(r.t, r.every, v, constant); }
  DEVICE void starts(i64 t, u32 ms, double v, bool constant) {
    begin_with(t);
    first = t - origin;
    every = ms;
    ahead_ms = (double)first;
    initial = v;
    differs = !constant;
    if (!few) return;
    at = seconds_of(ahead_ms);
    apart = seconds_of((i64)every);
    eighths = __builtin_fabs(at) < 0x1p40 && at * 8 == __builtin_rint(at * 8) && apart * 8 == __builtin_rint(apart * 8);
  }
  DEVICE bool follows(const Walker& w, u32 i, u32 n) {
    i64 t = time(w, i);
    if (n == 0) starts(t, w.every, value(w, i), true);
    return (w.kind & kTimesOf) == kRegular && w.every == every && (double)(t - origin) == ahead_ms;
  }
  template <u32 n>
  DEVICE void next(u32, double (&to)[n]) {
    next(to);
  }
  template <u32 n>
  DEVICE void read(const Walker&, u32, double (&to)[n]) {
    next(to);
  }
  template <u32 n>
  DEVICE void next(double (&to)[n]) {
    if (few && eighths) {
      UNROLL for (u32 k = 0; k < n; k++, at += apart) to[k] = at;
    } else {
      UNROLL for (u32 k = 0; k < n; k++, ahead_ms += every) to[k] = seconds_of(ahead_ms);
    }
  }
  DEVICE void add(u32, double at, double v) {
    if (!few) differs |= as_bits(v) ^ as_bits(initial);
    add_plain(v, y, y_lost);
    add_plain(at * v, xy, xy_lost);
  }
  DEVICE Found found(u32 n, i64, i64) {
    if (n < 2) return Found{kAbsent, n};
    Spread& s = last_spread<few ? kRecentThreads : 128>();
    if (s.n != n || s.every != every || s.first != first) s = spread_of(even_sums(first, every, n), first, every, n);
    double v = result(s, [](double d, double n) { return quotient(d, n); });
    finite = is_finite(v);
    return value_of_all(v, n);
  }
  DEVICE bool failed() const { return !finite; }
};

struct Line : LineSums {
  using Plain = PlainLine<false>;
  using Few = PlainLine<true>;
  TimeSums times;
  DEVICE void add(u32 i, i64 t, double v) {
    if (i == 0) {
      begin_with(t);
      initial = v;
    }
    double at = seconds_of(t - origin);
    times.add(at);
    differs |= as_bits(v) ^ as_bits(initial);
    add_compensated(v, y, y_lost);
    add_compensated(at * v, xy, xy_lost);
  }
  DEVICE Found found(u32 n, i64, i64) const {
    if (n < 2) return Found{kAbsent, n};
    if (constant() && infinite(initial)) return value_of_all(__builtin_nan(""), n);
    return value_of_all(result(spread_of(times, 0, 0, n), quotient_of_any), n);
  }
};

using Slope = Line;
using Prediction = Line;
