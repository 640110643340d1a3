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

const u32 kAtOnce = 8;  // series whose values a thread loads at once
typedef double (*Loaded)[32];  // kAtOnce of them a warp, in shared memory

// Hands values of neighbouring series to take(first, values), always kAtOnce of them, kAbsent where there is
// none any more. The warps of a block load for the first of them, which takes, what comes next.
template <class Take>
DEVICE void each_of(const Column& c, u32 from, u32 to, Loaded loaded, Take&& take) {
  u32 lane = thread_x(), mine = thread_y() * kAtOnce, all = threads_y() * kAtOnce;
  double next[kAtOnce];
  auto load = [&](u32 first) {
    UNROLL for (u32 i = 0; i < kAtOnce; i++) next[i] = first + i < to ? c.value(first + i) : as_double(kAbsent);
  };
  load(from + mine);
  for (u32 first = from; first < to; first += all) {
    barrier();  // all that was loaded is taken
    UNROLL for (u32 i = 0; i < kAtOnce; i++) loaded[mine + i][lane] = next[i];
    barrier();
    load(first + all + mine);
    if (mine > 0) continue;
    NO_UNROLL for (u32 i = 0; i < all && first + i < to; i += kAtOnce) {
      double v[kAtOnce];
      UNROLL for (u32 j = 0; j < kAtOnce; j++) v[j] = loaded[i + j][lane];
      take(first + i, v);
    }
  }
}

// The same by one thread, which loads ahead itself.
template <class Take>
DEVICE void each_in_turn(const Column& c, u32 from, u32 to, Take&& take) {
  double next[kAtOnce];
  u32 row[kAtOnce];
  auto find = [&](u32 first) {
    UNROLL for (u32 i = 0; i < kAtOnce; i++) row[i] = c.rows[first + i < to ? first + i : to - 1];
  };
  auto load = [&](u32 first) {
    UNROLL for (u32 i = 0; i < kAtOnce; i++) {
      next[i] = first + i < to ? c.values[(u64)row[i] * c.steps] : as_double(kAbsent);
    }
    find(first + kAtOnce);
  };
  if (from >= to) return;
  find(from);
  load(from);
  NO_UNROLL for (u32 first = from; first < to; first += kAtOnce) {
    double v[kAtOnce];
    UNROLL for (u32 i = 0; i < kAtOnce; i++) v[i] = next[i];
    load(first + kAtOnce);
    take(first, v);
  }
}
