// The runs of the series of groups, which lie in a row of buckets each, and how a block goes through them.
#pragma once
#include "state.h"

// What kernels that merge the runs of a batch into those of their groups are given: states of runs, or with
// `values`, one a run, those of that alone; the groups that have a part in the batch, whose series have rows
// rows[starts[i]] to rows[starts[i+1]], in their order; and the states of groups, a row each.
#define MERGE_PARAMETERS                                                                                         \
  u32 *__restrict__ n, double *__restrict__ fields, u32 parts, const double *__restrict__ values, u32 buckets,   \
      const u32 *__restrict__ groups, const u32 *__restrict__ starts, const u32 *__restrict__ rows, u32 count,   \
      u32 *__restrict__ group_n, double *__restrict__ group_fields, u32 group_parts

#define MERGE_JOB                                                                                          \
  MergeJob {                                                                                               \
    States{n, fields, buckets, parts}, values, rows, States{group_n, group_fields, buckets, group_parts},  \
        block_x() * threads_x() + thread_x(), block_x() * threads_x() + thread_x() < buckets               \
  }

const u32 kRows = 4;   // that a thread loads at once
const u32 kWarps = 8;  // of a block, at most

struct MergeJob {
  States runs;
  const double* __restrict__ values;  // or null
  const u32* __restrict__ rows;
  States groups;
  u32 k;
  bool owns;  // a bucket; others go through the first beside their block

  DEVICE void begin() {
    if (!owns) k = 0;
  }

  // Loads the states of series i and those behind it, none from `end` on, where there must be one before.
  template <Parts wanted>
  DEVICE void load(u32 i, u32 end, RunState (&o)[kRows]) const {
    u32 row[kRows], there[kRows];
    UNROLL for (u32 j = 0; j < kRows; j++) row[j] = rows[i + j < end ? i + j : end - 1];
    UNROLL for (u32 j = 0; j < kRows; j++) there[j] = runs.n[runs.count_at(row[j], k)];
    if (values) {
      UNROLL for (u32 j = 0; j < kRows; j++) o[j] = state_of(values[runs.count_at(row[j], k)]);
    } else {
      UNROLL for (u32 j = 0; j < kRows; j++) o[j] = runs.load_fields(row[j], k, wanted);
    }
    UNROLL for (u32 j = 0; j < kRows; j++) o[j].n = i + j >= end || there[j] == 0 ? 0 : values ? 1 : there[j];
  }
};
