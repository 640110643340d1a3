// sum, avg, min and max of the samples of windows that share none: see fused.h.
#pragma once
#include "fused.h"
#include "sums.h"

template <u32 op>
struct Over;

template <>
struct Over<kSum> {
  double sum, lost;
  DEVICE void begin(const u64*) { sum = lost = 0; }
  DEVICE void add(u32, i64, double v) { add_compensated(v, sum, lost); }
  DEVICE Found found(u32 n, i64, i64) const { return Found{as_bits(sum + lost), n, n}; }
  DEVICE bool failed() const { return false; }
};

// A mean is that of the sum, unless that is infinite. A sum that begins with -0 has the
// bits of one that begins with the first value.
template <>
struct Over<kAvg> {
  double sum, lost;
  bool overflow;
  DEVICE void begin(const u64*) {
    sum = -0.0;
    lost = 0;
  }
  DEVICE void add(u32, i64, double v) { add_compensated(v, sum, lost); }
  DEVICE Found found(u32 n, i64, i64) {
    overflow = overflow || infinite(sum) || sum != sum;
    double rest = lost;
    if (rest != 0) rest /= n;  // dividing zero takes a GPU long
    return Found{as_bits(sum / n + rest), n, n};
  }
  DEVICE bool failed() const { return overflow; }
};

template <u32 op>
struct Over {
  double v;
  DEVICE void begin(const u64*) {}
  DEVICE void add(u32 n, i64, double w) {
    if (n == 0 || v != v || (op == kMin ? v > w : v < w)) v = w;
  }
  DEVICE Found found(u32 n, i64, i64) const { return Found{as_bits(v), n, n}; }
  DEVICE bool failed() const { return false; }
};

// Any of them, of whatever there is.
struct AnyOver {
  u32 op;
  State s;
  DEVICE void begin(const u64*) { s = State{0, 0, 0, 0}; }
  DEVICE void add(u32, i64, double v) {
    switch (op) {
      case kSum: add_over_time<kSum>(s, v); break;
      case kAvg: add_over_time<kAvg>(s, v); break;
      case kMin: add_over_time<kMin>(s, v); break;
      default: add_over_time<kMax>(s, v);
    }
  }
  DEVICE Found found(u32 n, i64, i64) const {
    double v = op == kSum ? result<kSum>(s) : op == kAvg ? result<kAvg>(s) : s.value;
    return Found{as_bits(v), n, n};
  }
  DEVICE bool failed() const { return false; }
};

template <bool mixed>
DEVICE void fused_over_any(const FusedJob& job, u32 op) {
  AnyOver f{op, State{0, 0, 0, 0}};
  fused<mixed>(job, f);
}

template <u32 op>
DEVICE bool fused_over(const FusedJob& job) {
  Over<op> f{};
  return fused<false>(job, f);
}
