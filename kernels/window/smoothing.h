// Double exponential smoothing, by the factors `param` and `trend`.
#pragma once
#include "policy.h"

struct Smoothing {
  double factor = 0, trend_factor = 0;
  double before = 0, level = 0, trend = 0;
  DEVICE void begin(const Beginning& at) {
    factor = at.param;
    trend_factor = at.trend;
  }
  DEVICE void add(u32 i, i64, double v) {
    if (i == 0) {
      level = v;
      return;
    }
    trend = i == 1 ? v - level : trend_factor * (level - before) + (1 - trend_factor) * trend;
    before = level;
    level = factor * v + (1 - factor) * (level + trend);
  }
  DEVICE Found found(u32 n, i64, i64) const { return Found{n < 2 ? kAbsent : as_bits(level), n}; }
};
