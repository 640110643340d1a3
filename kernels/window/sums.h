// Sums of windows that share much: samples that come into a window are added to the sum of the one
// before, and those that leave it are taken away.
#pragma once
#include "over.h"

// The sum hi+lo of the samples of a window that are finite, and how many of the others there are.
struct Total {
  double hi, lo;
  u32 count;               // samples of the window
  u32 passed;              // added and taken away
  u32 marks;               // of all that were added, see below
  u32 nans, above, below;  // samples that are NaN, +Inf, -Inf
  DEVICE void join(const Total& o);
};

// Marks: 11 bits of the largest exponent of the values, as it is in their bits, and 12 bits of how far
// below 4095 the lowest bit set in any of them is, counted from the lowest of the smallest float64, 0
// where all are zero.
const u32 kExponent = 0x7ff, kLowest = 0xfff << 11;

DEVICE u32 larger(u32 a, u32 b) { return a > b ? a : b; }

DEVICE u32 join_marks(u32 a, u32 b) {
  return larger(a & kExponent, b & kExponent) | larger(a & kLowest, b & kLowest);
}

DEVICE u32 exponent_of(double v) { return (u32)(as_bits(v) >> 52) & kExponent; }

// The marks of a value that is finite.
DEVICE u32 marks_of(double v) {
  u32 exponent = exponent_of(v);
  u64 fraction = as_bits(v) << 12 >> 12;
  if (exponent > 0) fraction |= 1ull << 52;
  if (fraction == 0) return 0;
  u32 lowest = (exponent ? exponent - 1 : 0) + (u32)__builtin_ctzll(fraction);
  return exponent | (4095 - lowest) << 11;
}

// Adds v to hi, and what that loses to lo. Only the sum hi waits for the one before.
DEVICE void add_exactly(Total& s, double v) {
  double t = s.hi + v;
  double part = t - s.hi;
  s.lo += (s.hi - (t - part)) + (v - part);
  s.hi = t;
}

// Adds a value, or takes it away.
template <bool away>
DEVICE void move(Total& s, double v) {
  const u32 one = away ? ~0u : 1;
  s.count += one;
  s.passed++;
  if (is_finite(v)) {
    if (!away) s.marks = join_marks(s.marks, marks_of(v));
    return add_exactly(s, away ? -v : v);
  }
  s.nans += v != v ? one : 0;
  s.above += v > 0 ? one : 0;
  s.below += v < 0 ? one : 0;
}

DEVICE void Total::join(const Total& o) {
  if (o.count == 0) return;
  add_exactly(*this, o.hi);
  lo += o.lo;
  count += o.count;
  passed += o.passed;
  marks = join_marks(marks, o.marks);
  nans += o.nans;
  above += o.above;
  below += o.below;
}

// Adds rows to a sum, or takes them away.
template <bool away, u32 most>
DEVICE void move(Total& s, const Walker& w, const NextRows<most>& rows) {
  if (rows.n == 0) return;
  if (rows.whole) {
    NO_UNROLL for (u32 i = 0; i < rows.n; i++) move<away>(s, value(w, w.i + i));
    return;
  }
  const Scale scale(w);
  u32 largest = 0;
  double v[most];
  rows.values(w, scale, v);
  UNROLL for (u32 i = 0; i < most; i++) {
    largest = larger(largest, (u32)(as_bits(v[i]) >> 32) & ~0u >> 1);
    add_exactly(s, away ? -v[i] : v[i]);
  }
  s.count += away ? -rows.n : rows.n;
  s.passed += rows.n;
  if (away || largest == 0) return;
  // The lowest bit of integers is not below 1. No decimal but zero is less than the chunk's least, or than 1/unit.
  double least = scale.base > 0 ? scale.base * scale.inverse : scale.inverse;
  u32 lowest = w.kind & kDecimals ? exponent_of(least) - 2 : 1074;
  s.marks = join_marks(s.marks, largest >> 20 | (4095 - lowest) << 11);
}

// Prometheus's sum of the values, or their mean, or false where its bits do not follow from the total.
//
// Let N values have passed, all below M and multiples of g, and u be 2^-53. The sum of all that hi lost is
// at most N²·u·M. If that is below g/u then no bit of it is lost: hi+lo is the sum of the window, and so is
// Prometheus's compensated sum, that is p+c, p being the plain sum and c that of its rounding errors.
// Otherwise lo is at most 4·N³·u²·M off, and Prometheus's sum as much; the bits are certain where rounding
// with all that added and taken away yields the same. The mean p/n+c/n has Prometheus's bits where all
// plain sums are float64s, and is else within 2^8·u of it where the sum is at least (N³/16+4·N²)·u·M, so that c
// and what is off are small beside it.
DEVICE bool over_time(const Total& s, bool mean, double& v) {
  i32 exponent = s.marks & kExponent, lowest = 4095 - (s.marks >> 11);
  if (exponent > 1023 + 450) return false;  // sums might overflow
  if (s.nans | s.above | s.below) {
    v = s.nans || (s.above && s.below) ? __builtin_nan("") : s.above ? __builtin_inf() : -__builtin_inf();
    return true;
  }
  double sum = s.hi + s.lo;
  v = mean ? sum / (double)s.count : sum;
  // The values are below 2^(exponent-1022) and multiples of 2^(lowest-1074).
  i32 room = mean ? lowest - exponent : (lowest - exponent + 53) / 2;
  if (room > 31 || (room >= 0 && s.passed <= 1u << room)) return true;
  if (exponent < 1023 - 400) return false;  // errors might vanish
  if (mean) {
    i32 bits = 32 - __builtin_clz(s.passed), cubed = 3 * bits - 3, squared = 2 * bits + 3;
    return (i32)exponent_of(sum) >= exponent - 52 + (cubed > squared ? cubed : squared);
  }
  const double u = 1.0 / (1ull << 53), n = s.passed;
  double off = (8 * n * n * n + 64) * u * u * as_double((u64)(exponent + 1) << 52);
  v = s.hi + (s.lo - off);
  return v == s.hi + (s.lo + off);
}
