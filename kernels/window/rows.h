// Windows as runs of rows: which rows of a chunk a window holds is found first. So the loops over
// these compare no times, and load several rows before they wait for the first. Stored integers are
// added and compared as they are.
#pragma once
#include "../values/aggregate.h"
#include "walker.h"

// Kernels that go through rows: 24 warps a multiprocessor, in 80 registers a thread.
#define ROWS_THREADS MAX_THREADS_AND_BLOCKS(128, 6)

// Rows that are loaded before the first of them is waited for.
const u32 kRowsAtOnce = 4;

// Adds n values to an accumulator, in order, which are 32 places apart. It loads `together` values at once.
template <u32 together = kRowsAtOnce, class T, class A>
DEVICE void add_rows(const T* at, u32 n, A& to) {
  NO_UNROLL for (; n >= together; n -= together, at += together * 32) {
    T v[together];
    UNROLL for (u32 i = 0; i < together; i++) v[i] = at[i * 32];
    UNROLL for (u32 i = 0; i < together; i++) to.add(v[i]);
  }
  if constexpr (together > kRowsAtOnce) return add_rows(at, n, to);
  if (n == 0) return;
  T v[kRowsAtOnce - 1];
  UNROLL for (u32 i = 0; i < kRowsAtOnce - 1; i++) v[i] = at[(i < n ? i : 0) * 32];
  UNROLL for (u32 i = 0; i < kRowsAtOnce - 1; i++) {
    if (i < n) to.add(v[i]);
  }
}

// The same of rows of a chunk: whole values, and stored integers.
template <u32 together = kRowsAtOnce, class A>
DEVICE void add_values(const Walker& w, u32 from, u32 n, A& to) {
  add_rows<together>((const double*)w.values + from * 32, n, to);
}

template <u32 together = kRowsAtOnce, class A>
DEVICE void add_integers(const Walker& w, u32 from, u32 n, A& to) {
  if ((w.kind & kValuesOf) == kHalf) {
    add_rows<together>((const u32*)w.values + from * 32, n, to);
  } else {
    add_rows<together>((const unsigned short*)w.values + from * 32, n, to);
  }
}

// Adds v to sum and what that loses to lost, where sums are finite.
DEVICE void add_compensated_finite(double v, double& sum, double& lost) {
  double t = sum + v;
  lost += lost_by(sum, v, t);
  sum = t;
}

// What whole values stand for: themselves.
struct Whole {
  DEVICE double operator()(double v) const { return v; }
};

// What stored integers of a chunk stand for.
struct Scale {
  double base, unit, inverse;
  DEVICE explicit Scale(const Walker& w) : base(w.base), unit(1), inverse(1) {
    if (!(w.kind & kDecimals)) return;
    unit = w.chunk->unit;
    inverse = w.chunk->inverse;
  }
  // base + u in one addition: the bits of 2^52 + u are u's beside an exponent, and all three are
  // integers below 2^53.
  DEVICE double operator()(u32 u) const {
    const double high = 4503599627370496.0;  // 2^52
    return of_decimal(as_double(0x433ull << 52 | u) + (base - high), unit, inverse);
  }
  DEVICE double at(i64 u) const { return of_decimal(base + (double)u, unit, inverse); }
};

// The next rows of a chunk up to a time, at most `most`, which are loaded before the first is waited for.
template <u32 most>
struct NextRows {
  u32 n = 0;
  bool whole = false;
  u32 words[most] = {};  // which the values are in or, if they are whole, begin with

  DEVICE void load(const Walker& w, i64 t) {
    n = count(w, t);
    whole = (w.kind & kValuesOf) == kWhole;
    u32 row = 32 * value_bytes(w.kind);
    const u8* at = w.values + (u64)w.i * row;
    at -= (u64)at & 2;
    UNROLL for (u32 i = 0; i < most; i++, at += row) words[i] = load_if(i < n, at, 0);
  }

  DEVICE static u32 count(const Walker& w, i64 t) {
    if (w.t > t) return 0;
    i64 gap = t - w.t;
    u32 left = w.n - w.i, n = 1;
    if ((w.kind & kTimesOf) == kRegular) {
      UNROLL for (u32 i = 1; i < most; i++) n += (gap -= w.every) >= 0;
    } else if (w.until <= t) {
      n = most;
    } else {
      UNROLL for (u32 i = 1; i < most; i++) n += i < left && time(w, w.i + i) <= t;
    }
    return n < left ? n : left;
  }

  // Their values, packed, and 0 behind the last.
  DEVICE void values(const Walker& w, const Scale& scale, double (&v)[most]) const {
    u32 shift = (u32)(u64)w.values % 4 * 8, mask = (w.kind & kValuesOf) == kHalf ? ~0u : 0xffff;
    UNROLL for (u32 i = 0; i < most; i++) v[i] = i < n ? scale(words[i] >> shift & mask) : 0;
  }

  // Goes to the row behind them.
  DEVICE void pass(Walker& w, const Columns& c) const {
    if (n > 0) go(w, c, w.i + n);
  }
};

// Calls to.rows(w, from, n) for each run of rows from where w is up to time t, and leaves w at the
// first sample behind. Returns how many rows there are.
template <class R>
DEVICE u32 pass_rows(const Columns& c, Walker& w, i64 t, R& to) {
  u32 all = 0;
  while (w.t <= t) {
    u32 i = w.until <= t ? w.n : first_behind(w, t);
    to.rows(w, w.i, i - w.i);
    all += i - w.i;
    go(w, c, i);
  }
  return all;
}

// Calls to.rows(w, from, n) for each run of rows of the window that begins with the sample where w is
// and ends at `end`. Returns how many rows there are. It comes back to where it was: a second walker
// at the end would take the registers of other warps.
template <class R>
DEVICE u32 each_run(const Columns& c, Walker& w, i64 end, R& to) {
  u32 tile = w.tile, i = w.i, all = 0;
  while (w.t <= end) {
    bool past = w.until <= end;
    u32 n = (past ? w.n : first_behind(w, end)) - w.i;
    to.rows(w, w.i, n);
    all += n;
    if (!past) break;
    w.tile++;
    enter(w, c);
  }
  if (w.tile != tile) {
    w.tile = tile;
    enter(w, c);
    go(w, c, i);
  }
  return all;
}
