// How the difference between a window's first and last sample is extrapolated to the
// window: rate, increase, delta.
#pragma once
#include "shim.h"

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
  s.covered = (double)covered / 1000;
  double spacing = s.covered / (double)(n - 1);
  double threshold = spacing * 1.1;
  s.to_start = (double)lead / 1000;
  if (s.to_start >= threshold) s.to_start = spacing / 2;
  s.to_end = (double)trail / 1000;
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
