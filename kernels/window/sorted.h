// The values of a window by their order: a sorted copy of up to so many, or, where they
// are too many, what is found in them where they lie.
#pragma once
#include "../values/order.h"
#include "walker.h"

// Up to kMost values in order, equal ones in the order in which they came, a
// thread's own: value i is at[i*stride].
struct Sorted {
  double* at;
  u32 stride, n;
  DEVICE double& operator[](u32 i) const { return at[i * stride]; }
  DEVICE void insert(double v) {
    u32 i = n++;
    for (; i > 0; i--) {
      double before = (*this)[i - 1];
      if (!precedes(v, before)) break;
      (*this)[i] = before;
    }
    (*this)[i] = v;
  }
  // Removes the first that came of those equal to v, of which there is one.
  DEVICE void remove(double v) {
    u32 i = 0;
    while (precedes((*this)[i], v)) i++;
    for (n--; i < n; i++) (*this)[i] = (*this)[i + 1];
  }
};

// The median distance of sorted values to their median. The distances fall and then
// rise, so the largest is always at one of the ends.
DEVICE double median_distance(const Sorted& s) {
  if (s[0] != s[0]) return s[0];
  Position p = position_of(0.5, s.n);
  double median = between(s[p.lower], s[p.upper], p.weight);
  if (median != median) return median;
  if (__builtin_fabs(median) == __builtin_inf()) {
    // The distance of infinity to itself is NaN, which comes first.
    u32 nans = 0;
    for (u32 i = 0; i < s.n; i++) nans += s[i] == median;
    double upper = p.upper < nans ? __builtin_nan("") : __builtin_inf();
    return between(p.lower < nans ? __builtin_nan("") : __builtin_inf(), upper, p.weight);
  }
  u32 i = 0, j = s.n - 1;
  double largest = 0, larger = 0;  // the last taken from the ends, and the one before
  for (u32 left = s.n; left > p.lower; left--) {
    double a = __builtin_fabs(s[i] - median), b = __builtin_fabs(s[j] - median);
    larger = largest;
    if (a > b) {
      largest = a;
      i++;
    } else {
      largest = b;
      j--;
    }
  }
  return between(largest, p.upper == p.lower ? largest : larger, p.weight);
}

// The values of a window where they lie, or their distances to a value.
struct Unsorted {
  const Columns& c;
  Walker first;
  u32 n;
  bool distances;
  double from;
  DEVICE double value(const Walker& w) const {
    double v = value_at(w);
    return distances ? __builtin_fabs(v - from) : v;
  }
};

// The values with the ranks p.lower and p.upper, of which it finds one bit after
// the other: 64 times all values are looked at. Zero stands for zeros of either sign.
DEVICE void select(const Unsorted& u, const Position& p, double& lower, double& upper) {
  u64 key = 0;
  for (u64 bit = 1ull << 63; bit > 0; bit >>= 1) {
    u32 below = 0;
    Walker w = u.first;
    for (u32 i = 0; i < u.n; i++, next(w, u.c)) below += key_of(u.value(w)) < (key | bit);
    if (below <= p.lower) key |= bit;
  }
  u32 upto = 0;
  u64 above = ~0ull;
  Walker w = u.first;
  for (u32 i = 0; i < u.n; i++, next(w, u.c)) {
    u64 other = key_of(u.value(w));
    if (other <= key) {
      upto++;
    } else if (other < above) {
      above = other;
    }
  }
  lower = of_key(key);
  upper = of_key(p.upper < upto ? key : above);
}
