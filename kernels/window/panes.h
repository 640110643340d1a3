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

  DEVICE static Extreme none(Operator op) { return Extreme{__builtin_nan(""), 0, turn_of(op)}; }
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

// Where extremes lie: `entries` of each field behind each other, those of a tile's
// panes row by row, a row holding one of each of its 32 series.
struct Store {
  double* __restrict__ values;
  u32* __restrict__ counts;
  DEVICE Store(u8* at, u64 entries) : values((double*)at), counts((u32*)(at + 8 * entries)) {}
  DEVICE Extreme load(u64 i) const { return Extreme{values[i], counts[i], 0}; }
  DEVICE void store(u64 i, const Extreme& x) {
    values[i] = x.value;
    counts[i] = x.count;
  }
};
