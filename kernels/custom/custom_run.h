// A run while a program has its state, and where that goes.
#pragma once
#include "custom.h"

// States in device memory, a field after the other, or with `found` what they come to.
struct CustomStates {
  u32* __restrict__ n;  // 0 where there is no run
  double* __restrict__ fields;
  u64 cells;
  double* __restrict__ found;
};

struct CustomRun {
  u32 n;
  double last;
  i64 last_at;

  DEVICE void begin() {
    n = 0;
    last = 0;
    last_at = 0;
    custom_begin();
  }

  DEVICE void add(i64 t, double v) {
    custom_add(v, t, last, last_at, n);
    n++;
    last = v;
    last_at = t;
  }

  // Stores what there is, of a bucket from start to end.
  DEVICE void end(const CustomStates& out, u64 cell, i64 start, i64 end) const {
    out.n[cell] = n;
    if (n == 0) return;
    if (out.found) {
      out.found[cell] = custom_result(start, end);
    } else {
      custom_store(out.fields + cell, out.cells);
    }
  }
};
