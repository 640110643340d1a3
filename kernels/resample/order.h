// Order statistics of runs: keys in the order of values, and what lies where among sorted ones.
#pragma once
#include "../abi/series.h"
#include "../values/order.h"

#ifdef __CUDA__
// The key at an address if there is one, else ~0, without a branch that loads would wait behind.
DEVICE u64 load_if(bool there, const u64* at) {
  u32 lower, upper;
  asm volatile("{\n\t.reg .pred p;\n\tsetp.ne.u32 p, %3, 0;\n\tmov.u32 %0, -1;\n\tmov.u32 %1, -1;\n\t"
               "@p ld.global.v2.u32 {%0, %1}, [%2];\n\t}"
               : "=&r"(lower), "=&r"(upper) : "l"(at), "r"((u32)there) : "memory");
  return (u64)upper << 32 | lower;
}
#else
inline u64 load_if(bool there, const u64* at) { return there ? *at : ~0ull; }
#endif

// An integer of the same order as the value, as package resample/aggregate sorts: NaN first, and
// -0 before 0.
DEVICE u64 sort_key(double v) {
  u64 bits = as_bits(v);
  if (v != v) return 0;
  return bits >> 63 ? ~bits : bits | 1ull << 63;
}

DEVICE double of_sort_key(u64 key) {
  if (key == 0) return __builtin_nan("");
  return as_double(key >> 63 ? key ^ 1ull << 63 : ~key);
}

// Keys of samples lie in rows, one a series, in the order of time. The rows of a tile of series are equally
// long: `rows` says of each tile where they begin, in units of 32 keys, and of the last where they end.
struct KeyRows {
  const u64* __restrict__ rows;

  // The number of the first key of a series.
  DEVICE u64 at(u32 series) const {
    u64 begin = rows[series / 32];
    return begin * 32 + series % 32 * (rows[series / 32 + 1] - begin);
  }
};

// Which keys of its row a run has, as one word; 0 where there is no run.
struct InRow {
  u32 n, begin;
  DEVICE explicit InRow(u64 word) : n((u32)word), begin((u32)(word >> 32)) {}
};
DEVICE u64 in_row(u32 begin, u32 n) { return n == 0 ? 0 : (u64)begin << 32 | n; }

// Up to so many sorted keys: key i is at[i*stride].
struct SortedKeys {
  u64* at;
  u32 stride, n;
  DEVICE u64& operator[](u32 i) const { return at[i * stride]; }

  DEVICE void insert(u64 key) {
    u32 i = n++;
    for (; i > 0; i--) {
      u64 before = (*this)[i - 1];
      if (before <= key) break;
      (*this)[i] = before;
    }
    (*this)[i] = key;
  }

  // The number of different values: all NaN are one, and so are both zeros.
  DEVICE double distinct() const {
    u32 found = 1;
    for (u32 i = 1; i < n; i++) found += (*this)[i] > 0 && of_sort_key((*this)[i]) != of_sort_key((*this)[i - 1]);
    return found;
  }

  // The first key that is not less.
  DEVICE u32 find(u64 key) const {
    u32 lo = 0, hi = n;
    while (lo < hi) {
      u32 mid = (lo + hi) / 2;
      if ((*this)[mid] < key) {
        lo = mid + 1;
      } else {
        hi = mid;
      }
    }
    return lo;
  }

  // A quantile of 0 to 1, or if that is negative the number of different values. Lowers *fault to
  // kMixedZeros where a zero depends on how zeros of either sign are sorted.
  DEVICE double statistic(double quantile, u64* __restrict__ fault) const {
    if (quantile < 0) return distinct();
    Position p = position_of(quantile, n);
    double v = between(of_sort_key((*this)[p.lower]), of_sort_key((*this)[p.upper]), p.weight);
    const u64 zero = 1ull << 63;  // -0 is before it
    if (v == 0 && find(zero - 1) < find(zero) && find(zero) < find(zero + 1)) atomic_min(fault, kMixedZeros);
    return v;
  }
};
