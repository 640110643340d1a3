// The standard deviation and the variance, by Welford's recurrence.
#pragma once
#include "recent.h"

// Numbers of samples by which d is divided: any below kMostDivisor, and
struct AnyCount {
  double n, r;
  DEVICE double quotient_of(double d) const { return quotient(d, n, r); }
};

// those of 1 to kRecent, 1/n in twice the precision, by which d/n is off by 2^-104 of it: see quotient.
struct FewCount {
  double r, more;
  DEVICE double quotient_of(double d) const { return fused_multiply_add(d, r, d * more); }
};

DEVICE FewCount few_count(double n) {
  double r = reciprocal(n);
  r = fused_multiply_add(fused_multiply_add(-n, r, 1), r, r);
  return FewCount{r, fused_multiply_add(-n, r, 1) * r};
}

// Those of 1 to kRecent, which the block must have set.
DEVICE FewCount& count_at(u32 i) {
  SHARED FewCount all[kRecent];
  return all[i];
}

// Of plain values. It fails where a difference is so small that its quotient might be subnormal.
template <class Count>
struct PlainWelford {
  static const bool kAny = false, kRegular = false;
  typedef Count Time;
  double mean = 0, mean_lost = 0, squares = 0, squares_lost = 0;
  u32 least = ~0u;
  double count = 0;
  bool root = false;
  DEVICE void begin(const Beginning& at) { root = at.kind == kDeviation; }
  DEVICE void starts(const Recent&, double, bool) {}
  DEVICE bool follows(const Walker&, u32, u32) { return true; }
  template <u32 n>
  DEVICE void read(const Walker&, u32, AnyCount (&d)[n]) {
    UNROLL for (u32 k = 0; k < n; k++) {
      count++;
      d[k] = AnyCount{count, reciprocal(count)};
    }
  }
  template <u32 n>
  DEVICE void next(u32 i, FewCount (&d)[n]) {
    UNROLL for (u32 k = 0; k < n; k++) d[k] = count_at(i + k);
  }
  DEVICE void add(u32, const Count& n, double v) {
    double delta = v - (mean + mean_lost);
    note_small(delta, least);
    add_plain(n.quotient_of(delta), mean, mean_lost);
    add_plain(delta * (v - (mean + mean_lost)), squares, squares_lost);
  }
  DEVICE Found found(u32 n, i64, i64) {
    double sum = squares + squares_lost, v = quotient(sum, n);
    if (!(sum == 0 || sum >= 0x1p-800)) least = 0;
    return value_of_all(root ? __builtin_sqrt(v) : v, n);
  }
  DEVICE bool failed() const { return least < kTiny; }
};

struct Welford {
  using Plain = PlainWelford<AnyCount>;
  using Few = PlainWelford<FewCount>;
  double count = 0, mean = 0, mean_lost = 0, squares = 0, squares_lost = 0;
  bool root = false;
  DEVICE void begin(const Beginning& at) { root = at.kind == kDeviation; }
  DEVICE void add(u32, i64, double v) {
    count++;
    double delta = v - (mean + mean_lost);
    add_compensated(quotient_of_any(delta, count), mean, mean_lost);
    add_compensated(delta * (v - (mean + mean_lost)), squares, squares_lost);
  }
  DEVICE Found found(u32 n, i64, i64) const {
    double v = quotient_of_any(squares + squares_lost, count);
    return value_of_all(root ? __builtin_sqrt(v) : v, n);
  }
};

using Variance = Welford;
using Deviation = Welford;
