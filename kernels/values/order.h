// Order statistics: which value has which rank, NaN first, and what lies between two of
// them, as Prometheus has it.
#pragma once
#include "../abi/compiler.h"

// Whether a comes before b.
DEVICE bool precedes(double a, double b) { return a < b || (a != a && b == b); }

// Where a quantile lies among n sorted values: between two of them, and how near to
// the upper one.
struct Position {
  u32 lower, upper;
  double weight;
};

DEVICE Position position_of(double quantile, u32 n) {
  double rank = quantile * (double)(n - 1);
  double floor = __builtin_floor(rank);
  u32 lower = (u32)floor;
  return Position{lower, lower + 1 < n ? lower + 1 : n - 1, rank - floor};
}

DEVICE double between(double lower, double upper, double weight) { return lower * (1 - weight) + upper * weight; }

// An integer of the same order as the value; zeros have one, and NaN has 0. Without branches, which loads would not pass.
DEVICE u64 key_of(double v) {
  u64 bits = as_bits(v), key = bits ^ ((u64)((i64)bits >> 63) | 1ull << 63);
  key += key == ~0ull >> 1;  // -0 to 0
  return v == v ? key : 0;
}

DEVICE double of_key(u64 key) {
  if (key == 0) return __builtin_nan("");
  return as_double(key >> 63 ? key ^ 1ull << 63 : ~key);
}
