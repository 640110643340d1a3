// A run while a program has its state, and where that goes.
#pragma once
#include "../resample/round_timestamps.h"
#include "custom.h"

// States in device memory, a field after the other, or with `found` what they come to.
struct CustomStates {
  u32* __restrict__ n;  // 0 where there is no run
  double* __restrict__ fields;
  u64 cells;
  double* __restrict__ found;
};

// See walk_runs in ../resample/walk.h.
struct CustomRun {
  const Buckets& buckets;
  CustomStates out;
  u32 n;
  double last;
  i64 last_at;

  DEVICE CustomRun(const Buckets& buckets, const CustomStates& out) : buckets(buckets), out(out), n(0) {}

  DEVICE u32 samples() const { return n; }
  DEVICE bool failed() const { return false; }

  DEVICE void begin() {
    n = 0;
    last = 0;
    last_at = 0;
    custom_begin();
  }

  DEVICE void enter(u32) {}

  DEVICE void add(i64 t, double v, u32) {
    custom_add(v, t, last, last_at, n);
    n++;
    last = v;
    last_at = t;
  }

  DEVICE void end(u32 k, u64 cell) const {
    if (out.found) {
      out.found[cell] = custom_result(buckets.opens(k), buckets.closes(k));
    } else {
      custom_store(out.fields + cell, out.cells);
    }
  }
};
