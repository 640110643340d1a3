// The states of aggregations: each adds values one by one with the operations of
// Prometheus's engine, in their order, so that the bits are the same.
#pragma once
#include "../abi/functions.h"
#include "../abi/series.h"

DEVICE bool infinite(double v) { return __builtin_fabs(v) == __builtin_inf(); }

DEVICE bool is_finite(double v) { return (as_bits(v) >> 52 & 0x7ff) < 0x7ff; }

// What adding v to sum, which yields t, loses by rounding.
DEVICE double lost_by(double sum, double v, double t) {
  bool as_large = __builtin_fabs(sum) >= __builtin_fabs(v);
  double large = as_large ? sum : v, small = as_large ? v : sum;
  return (large - t) + small;
}

// Adds v to sum and what that loses to lost, as Prometheus's kahansum.Inc does, without
// a branch, so that the next sum need not wait for what this one lost.
DEVICE void add_compensated(double v, double& sum, double& lost) {
  double t = sum + v;
  lost += lost_by(sum, v, t);
  if (infinite(t)) lost = 0;
  sum = t;
}

// Adds a value to a state that has at least one.
template <u32 op>
DEVICE void add_next(State& s, double v) {
  s.n++;
  if (op == kSum) {
    add_compensated(v, s.value, s.lost);
  } else if (op == kMin) {
    if (s.value > v || s.value != s.value) s.value = v;
  } else if (op == kMax) {
    if (s.value < v || s.value != s.value) s.value = v;
  } else if (op == kAvg) {
    double n = s.n;
    if (!s.running) {
      double sum = s.value, lost = s.lost;
      add_compensated(v, sum, lost);
      if (!infinite(sum)) {
        s.value = sum;
        s.lost = lost;
        return;
      }
      s.running = 1;
      s.value /= n - 1;
      s.lost /= n - 1;
    }
    double q = (n - 1) / n;
    double mean = q * s.value, lost = q * s.lost;
    add_compensated(v / n, mean, lost);
    s.value = mean;
    s.lost = lost;
  } else if (op == kStdVar) {
    double from = v - s.lost;
    s.lost += from / (double)s.n;
    s.value += from * (v - s.lost);
  }
}

template <u32 op>
DEVICE void add_value(State& s, double v) {
  if (s.n == 0) {
    s = op == kStdVar ? State{v - v, v, 1, 0} : State{v, 0, 1, 0};
  } else {
    add_next<op>(s, v);
  }
}

// Adds a value of a window's output, if it is one.
template <u32 op>
DEVICE void add_present(State& s, double v) {
  if (as_bits(v) != kAbsent) add_value<op>(s, v);
}

// Adds a value to the state of a window. A sum over time begins with zero, unlike
// the aggregation of that name.
template <u32 op>
DEVICE void add_over_time(State& s, double v) {
  if (op == kSum) {
    s.n++;
    add_compensated(v, s.value, s.lost);
  } else {
    add_value<op>(s, v);
  }
}

// The aggregate of at least one value.
template <u32 op>
DEVICE double result(const State& s) {
  if (op == kSum) return s.value + s.lost;
  if (op == kAvg) return s.running ? s.value + s.lost : s.value / s.n + s.lost / s.n;
  if (op == kCount) return s.n;
  if (op == kGroup) return 1;
  if (op == kStdVar) return s.value / s.n;
  if (op == kStdDev) return __builtin_sqrt(s.value / s.n);
  return s.value;
}
