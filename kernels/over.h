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
  DEVICE bool again() const { return false; }
};

// A mean is that of the sum, unless that would be infinite: then it is a running one.
// A sum that begins with -0 has the bits of one that begins with the first value.
template <>
struct Over<kAvg> {
  double sum, lost;
  bool running;
  DEVICE void begin(const u64*) {
    sum = -0.0;
    lost = 0;
    running = false;
  }
  DEVICE void add(u32 n, i64, double v) {
    double next = sum, rest = lost;
    add_compensated(v, next, rest);
    if (n == 0 || !(running || infinite(next))) {
      sum = next;
      lost = rest;
      return;
    }
    State s{sum, lost, n, running};
    add_next<kAvg>(s, v);
    sum = s.value;
    lost = s.lost;
    running = s.running;
  }
  DEVICE Found found(u32 n, i64, i64) const {
    double mean = running ? sum + lost : sum / n + lost / n;
    return Found{as_bits(mean), n, n};
  }
  DEVICE bool again() const { return false; }
};

template <u32 op>
struct Over {
  double v;
  DEVICE void begin(const u64*) {}
  DEVICE void add(u32 n, i64, double w) {
    if (n == 0 || v != v || (op == kMin ? v > w : v < w)) v = w;
  }
  DEVICE Found found(u32 n, i64, i64) const { return Found{as_bits(v), n, n}; }
  DEVICE bool again() const { return false; }
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
