// Arithmetic of plain values: zero, or of a magnitude from 2^-480 to 2^480. Their sums, squares and products with
// times are finite, and so far from the largest numbers that upper halves compare as float32 do, which takes one
// instruction beside those of float64. What is rounded has the bits that it has for any values.
#pragma once
#include "../values/aggregate.h"

const u32 kLeastPlain = (1023 - 480) << 20, kBehindPlain = (1023 + 480) << 20;  // upper halves

DEVICE bool is_plain(double v) {
  u32 upper = (u32)(as_bits(v) >> 32) & 0x7fffffff;
  return upper - kLeastPlain < kBehindPlain - kLeastPlain || v == 0;
}

DEVICE float upper_half(double v) { return magnitude(__builtin_bit_cast(float, (u32)(as_bits(v) >> 32))); }

// Adds v to sum and what that loses to lost. Of two with the same exponent either may stand for the larger,
// since their difference is exact (Dekker, 1971).
DEVICE void add_plain(double v, double& sum, double& lost) {
  double t = sum + v;
  bool as_large = upper_half(sum) >= upper_half(v);
  double large = as_large ? sum : v, small = as_large ? v : sum;
  lost += (large - t) + small;
  sum = t;
}

// Notes how small a number is that is not zero: it is large enough for quotient if kTiny is no more.
const u32 kTiny = 2 * (1023 - 800) << 20;

DEVICE void note_small(double d, u32& least) {
  u32 size = twice_less_one((u32)(as_bits(d) >> 32));
  least = size < least ? size : least;
}

// d/n, for an integer n below 2^16 and d of 2^-800 or more, or 0; it takes -0 for 0. The reciprocal is off by
// 2^-36, so q is, too, and what q leaves over is exact: a multiple of q's last place, less than 2^33 of them. So
// the sum is off by 2^-19 of a last place before it is rounded, and d/n cannot be as near as that to where
// rounding turns: it is 1/2n or more of a last place away.
const u32 kMostDivisor = 1 << 16;

DEVICE double reciprocal(double n) {
  double r = rough_reciprocal(n);
  return fused_multiply_add(fused_multiply_add(-n, r, 1), r, r);
}

DEVICE double quotient(double d, double n, double r) {
  double q = d * r;
  return fused_multiply_add(fused_multiply_add(-q, n, d), r, q);
}
DEVICE double quotient(double d, double n) { return quotient(d, n, reciprocal(n)); }

// d/n of any d. Dividing zero takes a GPU long.
DEVICE double quotient_of_any(double d, double n) { return d != 0 ? d / n : d; }
