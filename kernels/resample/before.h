// The group's count and sum before each run of a batch was merged into it: what the run's squared
// distances from the mean are merged by, whenever that is.
#pragma once
#include "state.h"

struct Before {
  double* __restrict__ fields;  // 3 a run, a field after the other; or null
  u64 cells;

  DEVICE void store(u64 at, u32 n, double sum, double lost) const {
    fields[at] = sum;
    fields[cells + at] = lost;
    fields[2 * cells + at] = n;
  }

  DEVICE RunState load(u64 at) const {
    RunState s{};
    s.sum = fields[at];
    s.lost = fields[cells + at];
    s.n = (u32)fields[2 * cells + at];
    return s;
  }
};
