// custom_merge: merges the states that a custom aggregate has of the runs of a batch of series into
// those of groups.
//
// Computes: the state of group g at bucket k merged with those of its series' runs, one after the
//   other in the order of the series; or with `values`, one a run, with the state of that alone.
// Grid: x 32 buckets, a block of 32 threads; y the groups that have a part in the batch, in strides of the
//   grid.
// A thread owns the state of one group at one bucket. The runs of the series of group groups[i] have
//   rows rows[starts[i]] to rows[starts[i+1]] of the batch. States lie as those of ../resample/state.h.
// Bytes per run: reads 4, and 8 a field, while the three runs before it are merged. Reads and writes
//   a state a group and bucket.
// Operations per run: those of the program.
#include "../resample/blocks.h"
#include "custom.h"

// The runs of a batch, or values.
struct CustomRuns {
  const u32* __restrict__ n;
  const double* __restrict__ fields;
  u32 many;  // of a state
  const double* __restrict__ values;  // or null
  const u32* __restrict__ rows;
  u32 buckets, k;

  // Loads the run of series i as the other state of number j. Returns its samples, of a value 1.
  DEVICE u32 fetch(u32 j, u32 i, u32 end) const {
    if (i >= end) return 0;
    u64 at = (u64)rows[i] * buckets + k;
    u32 has = n[at];
    if (has == 0) return 0;
    if (!values) {
      custom_fetch(j, fields + field_at(rows[i], k, buckets, many), kBlock);
      return has;
    }
    custom_one(j, values[at]);
    return 1;
  }
};

KERNEL MAX_THREADS(32) custom_merge(const u32* __restrict__ n, const double* __restrict__ fields, u32 many, u32 buckets,
                                    const u32* __restrict__ groups, const u32* __restrict__ starts,
                                    const u32* __restrict__ rows, u32 count,
                                    const double* __restrict__ values, u32* __restrict__ group_n,
                                    double* __restrict__ group_fields) {
  u32 k = block_x() * 32 + thread_x();
  if (k >= buckets) return;
  CustomRuns runs{n, fields, many, values, rows, buckets, k};
  for (u32 i = block_y(); i < count; i += blocks_y()) {
    u64 cell = (u64)groups[i] * buckets + k;
    double* state = group_fields + field_at(groups[i], k, buckets, many);
    u32 end = starts[i + 1], has[kStatesAhead], total = group_n[cell];
    if (total) custom_load(state, kBlock);
    UNROLL for (u32 j = 0; j < kStatesAhead; j++) has[j] = runs.fetch(j, starts[i] + j, end);
    for (u32 next = starts[i] + kStatesAhead; next < end + kStatesAhead; next += kStatesAhead) {
      UNROLL for (u32 j = 0; j < kStatesAhead; j++) {
        if (has[j] > 0) {
          if (total == 0) {
            custom_take(j);
          } else {
            custom_merge_other(j);
          }
          total += has[j];
        }
        has[j] = runs.fetch(j, next + j, end);
      }
    }
    if (total) custom_store(state, kBlock);
    group_n[cell] = total;
  }
}
