// Values series by series, a row of steps each, as window kernels write them, and the series of groups.
#pragma once
#include "../abi/series.h"

// The series of a group at one step, in their order: those of rows[from] to rows[to].
struct Column {
  const double* __restrict__ values;  // of row 0 at the step
  const u32* __restrict__ rows;
  u32 steps;  // of a row

  DEVICE double value(u32 i) const { return values[(u64)rows[i] * steps]; }
};

const u32 kAtOnce = 8;  // series whose values are loaded at once

// Hands values of neighbouring series to take(first, values), always so many at once, kAbsent where there is
// none any more. They are loaded while those before are taken.
template <class Take>
DEVICE void each_of(const Column& c, u32 from, u32 to, Take&& take) {
  double next[kAtOnce];
  auto load = [&](u32 first) {
    UNROLL for (u32 i = 0; i < kAtOnce; i++) next[i] = first + i < to ? c.value(first + i) : as_double(kAbsent);
  };
  load(from);
  for (u32 first = from; first < to; first += kAtOnce) {
    double v[kAtOnce];
    UNROLL for (u32 i = 0; i < kAtOnce; i++) v[i] = next[i];
    load(first + kAtOnce);
    take(first, v);
  }
}
