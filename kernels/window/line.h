// The least-squares line: its slope, and its value `param` seconds after the step.
#pragma once
#include "extrapolate.h"
#include "in_turn.h"

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
DEVICE Spread& last_spread() {
  SHARED Spread all[128];
  return all[thread_x()];
}

DEVICE void forget_spread() { last_spread().n = 0; }

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

// Of plain values at regular times, without gaps. It fails where the value is not finite.
struct PlainLine : LineSums {
  static const bool kAny = false, kRegular = true;
  typedef double Time;  // seconds from the origin
  i64 first = 0;        // ms from the origin to the first sample
  double next = 0;      // to the next one
  u32 every = 0;
  bool finite = true;
  DEVICE bool follows(const Walker& w, u32 i, u32 n) {
    i64 t = time(w, i);
    if (n == 0) {
      begin_with(t);
      first = t - origin;
      next = (double)first;
      every = w.every;
      initial = value(w, i);
    }
    return (w.kind & kTimesOf) == kRegular && w.every == every && (double)(t - origin) == next;
  }
  template <u32 n>
  DEVICE void read(const Walker&, u32, double (&at)[n]) {
    UNROLL for (u32 k = 0; k < n; k++, next += every) at[k] = seconds_of(next);
  }
  DEVICE void add(u32, double at, double v) {
    differs |= as_bits(v) ^ as_bits(initial);
    add_plain(v, y, y_lost);
    add_plain(at * v, xy, xy_lost);
  }
  DEVICE Found found(u32 n, i64, i64) {
    if (n < 2) return Found{kAbsent, n};
    Spread& s = last_spread();
    if (s.n != n || s.every != every || s.first != first) s = spread_of(even_sums(first, every, n), first, every, n);
    double v = result(s, quotient);
    finite = is_finite(v);
    return value_of_all(v, n);
  }
  DEVICE bool failed() const { return !finite; }
};

struct Line : LineSums {
  using Plain = PlainLine;
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
