// How the difference between a window's first and last sample is extrapolated to the
// window: rate, increase, delta.
#pragma once
#include "../abi/compiler.h"

// ms/1000, correctly rounded as a division is, in a tenth of its time: the quotient by
// the nearest reciprocal is off by less than a unit of its last place, and what it leaves
// over is exact (Markstein, "Computation of elementary functions on the IBM RISC
// System/6000 processor", 1990, theorem 8).
DEVICE double seconds_of(i64 ms) {
  const double to = 1.0 / 1000;
  double x = (double)ms, q = x * to;
  return fused_multiply_add(fused_multiply_add(-q, 1000, x), to, q);
}

// What a window is extrapolated by: the operations, and their order, are those of
// Prometheus's extrapolatedRate.
struct Shape {
  u32 n;
  i64 lead, trail;  // ms
  double seconds;   // that the result is divided by, or 0
  double covered, to_start, to_end, factor;
};

DEVICE double extrapolate(const Shape& s, double to_start) {
  double f = (s.covered + to_start + s.to_end) / s.covered;
  return s.seconds != 0 ? f / s.seconds : f;
}

DEVICE void set_shape(Shape& s, u32 n, i64 lead, i64 trail, i64 covered) {
  s.n = n;
  s.lead = lead;
  s.trail = trail;
  s.covered = seconds_of(covered);
  double spacing = s.covered / (double)(n - 1);
  double threshold = spacing * 1.1;
  s.to_start = seconds_of(lead);
  if (s.to_start >= threshold) s.to_start = spacing / 2;
  s.to_end = seconds_of(trail);
  if (s.to_end >= threshold) s.to_end = spacing / 2;
  s.factor = extrapolate(s, s.to_start);
}

// The difference, extrapolated: of a counter, which is never negative, not below zero.
DEVICE double extrapolated(const Shape& s, bool counter, double first, double increase) {
  double factor = s.factor;
  if (counter && increase > 0 && first >= 0) {
    double to_zero = s.covered * (first / increase);
    if (to_zero < s.to_start) factor = extrapolate(s, to_zero);
  }
  return increase * factor;
}
