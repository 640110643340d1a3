// The standard deviation and the variance, by Welford's recurrence.
#pragma once
#include "in_turn.h"

// Of plain values. It fails where a difference is so small that its quotient might be subnormal.
struct PlainWelford {
  static const bool kAny = false, kRegular = false;
  typedef u32 Time;
  double count = 0, mean = 0, mean_lost = 0, squares = 0, squares_lost = 0;
  u32 least = ~0u;
  bool root = false;
  DEVICE void begin(const Beginning& at) { root = at.kind == kDeviation; }
  DEVICE bool follows(const Walker&, u32, u32) { return true; }
  template <u32 n>
  DEVICE void read(const Walker&, u32, u32 (&)[n]) {}
  DEVICE void add(u32, u32, double v) {
    count++;
    double delta = v - (mean + mean_lost);
    note_small(delta, least);
    add_plain(quotient(delta, count), mean, mean_lost);
    add_plain(delta * (v - (mean + mean_lost)), squares, squares_lost);
  }
  DEVICE Found found(u32 n, i64, i64) {
    double sum = squares + squares_lost, v = quotient(sum, count);
    if (!(sum == 0 || sum >= 0x1p-800)) least = 0;
    return value_of_all(root ? __builtin_sqrt(v) : v, n);
  }
  DEVICE bool failed() const { return least < kTiny; }
};

struct Welford {
  using Plain = PlainWelford;
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
