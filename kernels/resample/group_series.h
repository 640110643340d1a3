// The runs of the series of groups, which lie in a row of buckets each, and how a block goes through them.
#pragma once
#include "../values/rows.h"
#include "state.h"

// What kernels that merge the runs of a batch into those of their groups are given: states of runs, or with
// `values`, one a run, those of that alone; the groups that have a part in the batch, whose series have rows
// rows[starts[i]] to rows[starts[i+1]], in their order; and the states of groups, group g's of bucket k being
// state g*buckets+k.
#define MERGE_PARAMETERS                                                                                          \
  u32 *__restrict__ n, double *__restrict__ fields, u64 cells, u32 parts, const double *__restrict__ values,      \
      u32 buckets, const u32 *__restrict__ groups, const u32 *__restrict__ starts, const u32 *__restrict__ rows,  \
      u32 count, u32 *__restrict__ group_n, double *__restrict__ group_fields, u64 group_cells, u32 group_parts

#define MERGE_JOB                                                                                                   \
  MergeJob {                                                                                                        \
    States{n, fields, cells, parts}, values, rows, States{group_n, group_fields, group_cells, group_parts}, buckets, \
        block_x() * 32 + thread_x()                                                                                 \
  }

struct MergeJob {
  States runs;
  const double* __restrict__ values;  // or null
  const u32* __restrict__ rows;
  States groups;
  u32 buckets, k;
  DEVICE u64 cell(u32 i) const { return (u64)rows[i] * buckets + k; }

  // Loads the states of series i and those behind it, none from `end` on, at which there must be one before.
  template <Parts wanted>
  DEVICE void load(u32 i, u32 end, RunState (&o)[kAtOnce]) const {
    u64 at[kAtOnce];
    UNROLL for (u32 j = 0; j < kAtOnce; j++) at[j] = cell(i + j < end ? i + j : end - 1);
    u32 there[kAtOnce];
    UNROLL for (u32 j = 0; j < kAtOnce; j++) there[j] = runs.n[at[j]];
    if (values) {
      UNROLL for (u32 j = 0; j < kAtOnce; j++) o[j] = state_of(values[at[j]]);
    } else {
      UNROLL for (u32 j = 0; j < kAtOnce; j++) {
        o[j] = runs.load_fields(at[j], wanted);
        o[j].n = there[j];
      }
    }
    UNROLL for (u32 j = 0; j < kAtOnce; j++) {
      if (i + j >= end || there[j] == 0) o[j].n = 0;
    }
  }
};
