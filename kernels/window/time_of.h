// The time of the extreme, the last of equal ones.
#pragma once
#include "policy.h"

template <bool least>
struct TimeOf {
  double v = 0;
  i64 t = 0;
  DEVICE void begin(const Beginning&) {}
  DEVICE void add(u32 i, i64 at, double w) {
    if (i > 0 && v == v && !(least ? w <= v : w >= v)) return;
    v = w;
    t = at;
  }
  DEVICE Found found(u32 n, i64, i64) const { return value_of_all((double)t / 1000, n); }
};

using TimeOfMin = TimeOf<true>;
using TimeOfMax = TimeOf<false>;
