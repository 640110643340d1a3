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

  // Stores those before `at`, a multiple of their number, and the runs behind it.
  DEVICE void store_neighbours(u64 at, const u32 (&n)[kNeighbours + 1], const double (&sums)[kNeighbours + 1],
                               const double (&lost)[kNeighbours + 1]) const {
    UNROLL for (u32 j = 0; j < kNeighbours; j += 2) {
      *(F64x2*)(fields + at + j) = F64x2{sums[j], sums[j + 1]};
      *(F64x2*)(fields + cells + at + j) = F64x2{lost[j], lost[j + 1]};
      *(F64x2*)(fields + 2 * cells + at + j) = F64x2{(double)n[j], (double)n[j + 1]};
    }
  }

  DEVICE RunState load(u64 at) const {
    RunState s{};
    s.sum = fields[at];
    s.lost = fields[cells + at];
    s.n = (u32)fields[2 * cells + at];
    return s;
  }
};
