// sum, avg, min and max of the samples of windows that share none: see fused.h.
#pragma once
#include "fused.h"
#include "sums.h"

template <u32 op>
struct Over {
  State s;
  DEVICE void begin(const u64*) { s = State{0, 0, 0, 0}; }
  DEVICE void add(u32, i64, double v) { add_over_time<op>(s, v); }
  DEVICE Found found(u32 n, i64, i64) const { return Found{n > 0 ? as_bits(result<op>(s)) : kAbsent, n, n}; }
  DEVICE bool more() const { return false; }
};

template <bool mixed, u32 op>
DEVICE void fused_over(const FusedJob& job) {
  Over<op> f{};
  fused<mixed>(job, f);
}

template <bool mixed>
DEVICE void fused_over(const FusedJob& job, u32 op) {
  switch (op) {
    case kSum: fused_over<mixed, kSum>(job); break;
    case kAvg: fused_over<mixed, kAvg>(job); break;
    case kMin: fused_over<mixed, kMin>(job); break;
    default: fused_over<mixed, kMax>(job);
  }
}
