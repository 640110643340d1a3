// Panes: the periods between neighbouring edges of windows. Each window
// is a whole number of panes, so what windows share is computed once.
#pragma once
#include "over.h"

// The panes of a grid of windows, from the start of the first window on. Where
// the width of a window is a multiple of the interval between steps, a step has one
// pane, as long as the interval; else two, the first of which is `head` long.
struct Panes {
  i64 base, interval, head;  // ms
  u32 per;                   // panes a step: window k begins with pane k*per
  u32 count;                 // of all
  u32 block;                 // neighbouring panes that are summed up together
  // The end of pane p, which is in it.
  DEVICE i64 end(u32 p) const {
    if (per == 1) return base + (i64)(p + 1) * interval;
    return base + (i64)(p / 2) * interval + (p % 2 ? interval : head);
  }
  DEVICE i64 begin(u32 p) const { return p == 0 ? base : end(p - 1); }
};

// The largest of some samples' values, turned by `turn`.
struct Extreme {
  double value;  // NaN if there are none
  u32 count;
  u64 turn;

  static const u32 kBytes = 12;
  DEVICE static Extreme none(Operator op) { return Extreme{__builtin_nan(""), 0, turn_of(op)}; }
  DEVICE u32 n() const { return count; }
  DEVICE void rows(const Walker& w, u32 from, u32 n) {
    value = largest_of(turn, value, w, from, n);
    count += n;
  }
  // Adds later samples.
  DEVICE void join(const Extreme& o) {
    if (o.count == 0) return;
    if (value < o.value || value != value) value = o.value;
    count += o.count;
  }
};

// The sum of some samples in twice the precision, without those that are not
// finite. The error of a sum of n values none of which is above M is below
// 16·n²·u²·M, u being 2^-53, however they were joined.
struct Total {
  double hi, lo;
  u32 count;
  u32 marks;  // see below

  static const u32 kBytes = 24;
  DEVICE static Total none(Operator) { return Total{0, 0, 0, 0}; }
  DEVICE u32 n() const { return count; }
  DEVICE void add(double v);
  DEVICE void rows(const Walker& w, u32 from, u32 n);
  DEVICE void join(const Total& o);
};

// Marks: 11 bits of the largest exponent of the values, as it is in their bits; 12
// bits of how far below 4095 the lowest bit set in any of them is, counted from the
// lowest of the smallest float64, 0 where all are zero; and whether there are values
// that are not finite.
const u32 kExponent = 0x7ff, kLowest = 0xfff << 11;
const u32 kNaN = 1u << 24, kPlusInf = 1u << 25, kMinusInf = 1u << 26;

DEVICE u32 larger(u32 a, u32 b) { return a > b ? a : b; }

DEVICE u32 join_marks(u32 a, u32 b) {
  u32 odd = (a | b) & (kNaN | kPlusInf | kMinusInf);
  return larger(a & kExponent, b & kExponent) | larger(a & kLowest, b & kLowest) | odd;
}

DEVICE u32 marks_of(double v) {
  u64 bits = as_bits(v);
  u32 exponent = bits >> 52 & kExponent;
  u64 fraction = bits << 12 >> 12;
  if (exponent == kExponent) return fraction ? kNaN : bits >> 63 ? kMinusInf : kPlusInf;
  if (exponent > 0) fraction |= 1ull << 52;
  if (fraction == 0) return 0;
  u32 lowest = (exponent ? exponent - 1 : 0) + (u32)__builtin_ctzll(fraction);
  return exponent | (4095 - lowest) << 11;
}

// Adds hi+lo to the sum.
DEVICE void add_double(Total& s, double hi, double lo) {
  double t = s.hi + hi;
  double part = t - s.hi;
  double lost = (s.hi - (t - part)) + (hi - part) + (s.lo + lo);
  s.hi = t + lost;
  s.lo = lost - (s.hi - t);
}

DEVICE void Total::add(double v) {
  u32 m = marks_of(v);
  count++;
  marks = join_marks(marks, m);
  if (m < kNaN) add_double(*this, v, 0);
}

// The sum of stored integers, which are finite, and the largest upper half of their bits but the sign.
struct ScaledTotal {
  Scale scale;
  Total s;
  u32 most;
  DEVICE void add(u32 u) {
    double v = scale(u);
    u32 upper = (u32)(as_bits(v) >> 32) & ~0u >> 1;
    most = larger(most, upper);
    add_double(s, v, 0);
  }
};

DEVICE void Total::rows(const Walker& w, u32 from, u32 n) {
  if ((w.kind & kValuesOf) == kWhole) return add_values(w, from, n, *this);
  ScaledTotal t{Scale(w), *this, 0};
  add_integers(w, from, n, t);
  hi = t.s.hi;
  lo = t.s.lo;
  count += n;
  // The lowest bit is not below 1, or of decimals, unknown.
  u32 lowest = w.kind & kDecimals ? 0 : 1074;
  if (t.most > 0) marks = join_marks(marks, t.most >> 20 | (4095 - lowest) << 11);
}

DEVICE void Total::join(const Total& o) {
  if (o.count == 0) return;
  count += o.count;
  marks = join_marks(marks, o.marks);
  add_double(*this, o.hi, o.lo);
}

// Prometheus's sum of the values, or their mean, or false where its bits do not
// follow from the sum s.
//
// Prometheus's compensated sum is p+c, where p is the plain sum and c that of its
// rounding errors: |c| <= n²·u·M, and p+c is at most n³·u²·M off. The answer is
// certain where rounding the sum with all that added and taken away yields the same
// bits, and where all sums of the values are float64s without rounding. The mean
// p/n+c/n has Prometheus's bits in the latter case, and is else within 4·u of it
// where c is small beside the sum.
DEVICE bool over_time(const Total& s, bool mean, double& v) {
  u32 exponent = s.marks & kExponent;
  if (exponent > 1023 + 450) return false;  // sums might overflow
  if (s.marks >= kNaN) {
    bool up = s.marks & kPlusInf, down = s.marks & kMinusInf;
    v = s.marks & kNaN || (up && down) ? __builtin_nan("") : up ? __builtin_inf() : -__builtin_inf();
    return true;
  }
  u32 lowest = 4095 - (s.marks >> 11 & 0xfff);
  double n = s.count, sum = s.hi + s.lo;
  // The values are below 2^(exponent-1022) and multiples of 2^(lowest-1074).
  u32 room = lowest + 1 > exponent ? lowest + 1 - exponent : 0;
  if (room > 31 || s.count <= (1u << room >> 1)) {
    v = mean ? sum / n : sum;
    return true;
  }
  if (exponent < 1023 - 400) return false;  // errors might vanish
  double most = as_double((u64)(exponent + 1) << 52);
  const double u = 1.0 / (1ull << 53);
  if (mean) {
    v = sum / n;
    return __builtin_fabs(sum) >= 4 * (n * n * u * most);
  }
  double off = (n * n * n + 16 * n * n + 64) * u * u * most;
  v = s.hi + (s.lo - off);
  return v == s.hi + (s.lo + off);
}

// Where states lie: `entries` of each field behind each other, those of a tile's
// panes row by row, a row holding one of each of its 32 series.
template <class S>
struct Store;

template <>
struct Store<Extreme> {
  double* __restrict__ values;
  u32* __restrict__ counts;
  DEVICE Store(u8* at, u64 entries) : values((double*)at), counts((u32*)(at + 8 * entries)) {}
  DEVICE Extreme load(u64 i) const { return Extreme{values[i], counts[i], 0}; }
  DEVICE void store(u64 i, const Extreme& x) {
    values[i] = x.value;
    counts[i] = x.count;
  }
  DEVICE u32 n(u64 i) const { return counts[i]; }
};

template <>
struct Store<Total> {
  double* __restrict__ highs;
  double* __restrict__ lows;
  u32* __restrict__ counts;
  u32* __restrict__ marks;
  DEVICE Store(u8* at, u64 entries)
      : highs((double*)at), lows((double*)(at + 8 * entries)), counts((u32*)(at + 16 * entries)),
        marks((u32*)(at + 20 * entries)) {}
  DEVICE Total load(u64 i) const { return Total{highs[i], lows[i], counts[i], marks[i]}; }
  DEVICE void store(u64 i, const Total& x) {
    highs[i] = x.hi;
    lows[i] = x.lo;
    counts[i] = x.count;
    marks[i] = x.marks;
  }
  DEVICE u32 n(u64 i) const { return counts[i]; }
};
