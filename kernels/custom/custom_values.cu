// custom_values: the results of a custom aggregate's states of groups.
//
// Computes: out[i] = the program's result of state i, of those that have samples: of the window of
//   bucket i%buckets. States lie as those of ../resample/state.h.
// Grid: one thread a state, blocks of 128.
// A thread owns one state.
// Bytes per state: reads 4, and 8 a field; writes 8.
// Operations per state: those of the program.
#include "../resample/blocks.h"
#include "../resample/buckets.h"
#include "custom.h"

KERNEL MAX_THREADS(128) custom_values(const u32* __restrict__ n, const double* __restrict__ fields, u64 cells, u32 many,
                                      BUCKETS_PARAMETERS, double* __restrict__ out) {
  u64 id = (u64)block_x() * threads_x() + thread_x();
  if (id >= cells || n[id] == 0) return;
  Buckets all = BUCKETS;
  u32 k = (u32)(id % buckets);
  custom_load(fields + field_at((u32)(id / buckets), k, buckets, many), kBlock);
  out[id] = custom_result(all.opens(k), all.closes(k));
}
