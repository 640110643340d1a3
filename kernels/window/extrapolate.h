// How the difference between a window's first and last sample is extrapolated to the
// window: rate, increase, delta.
#pragma once
#include "../abi/compiler.h"

// ms/1000, correctly rounded as a division is, in a tenth of its time: the quotient by
// the nearest reciprocal is off by less than a unit of its last place, and what it leaves
// over is exact (Markstein, "Computation of elementary functions on the IBM RISC
// System/6000 processor", 1990, theorem 8).
DEVICE double seconds_of(double ms) {
  const double to = 1.0 / 1000;
  double q = ms * to;
  return fused_multiply_add(fused_multiply_add(-q, 1000, ms), to, q);
}
DEVICE double seconds_of(i64 ms) { return seconds_of((double)ms); }

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

// The factor of a counter that, going back from its first sample, would be zero within the window.
NOINLINE double from_zero(double covered, double to_start, double to_end, double seconds, double factor, double first, double increase) {
  double to_zero = covered * (first / increase);
  if (!(to_zero < to_start)) return factor;
  return extrapolate(Shape{0, 0, 0, seconds, covered, to_start, to_end, factor}, to_zero);
}

// The difference, extrapolated: of a counter, which is never negative, not below zero. Where that is far
// is clear without a division: by more than what rounding takes from products and quotients.
DEVICE double extrapolated(const Shape& s, bool counter, double first, double increase) {
  double factor = s.factor;
  const double sure = 1 + 1.0 / (1ull << 49);
  if (counter && increase > 0 && first >= 0 && !(s.covered * first > fused_multiply_add(increase, s.to_start * sure, 1e-300))) {
    factor = from_zero(s.covered, s.to_start, s.to_end, s.seconds, factor, first, increase);
  }
  return increase * factor;
}
