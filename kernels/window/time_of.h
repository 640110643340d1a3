// The time of the extreme, the last of equal ones.
#pragma once
#include "policy.h"

struct TimeOf {
  u64 turn = 0;  // the bit that turns the signs of values: of -v the largest is that of the smallest v
  double v = 0;
  i64 t = 0;
  DEVICE void begin(const Beginning& at) { turn = at.kind == kTimeOfMin ? 1ull << 63 : 0; }
  DEVICE void add(u32 i, i64 at, double w) {
    w = as_double(as_bits(w) ^ turn);
    if (i > 0 && v == v && !(w >= v)) return;
    v = w;
    t = at;
  }
  DEVICE Found found(u32 n, i64, i64) const { return value_of_all((double)t / 1000, n); }
};

using TimeOfMin = TimeOf;
using TimeOfMax = TimeOf;
