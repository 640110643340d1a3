// value_keys: values of the runs of a batch as keys of their order, for group_order.
//
// Computes: of the run i = (tile*buckets+k)*32+lane, in the row of its series, which has a key a bucket,
//   keys[(tile*32+lane)*buckets+k] = the key of values[i], if there is one, and which keys that is: one or none.
// Grid: one thread a run, blocks of 128.
// A thread owns one run.
// Bytes per run: reads 12, writes 16.
// Operations per run: 10.
#include "order.h"

KERNEL MAX_THREADS(128) value_keys(const u32* __restrict__ n, const double* __restrict__ values, u64 cells, u32 buckets,
                                   u64* __restrict__ keys, u64* __restrict__ in_rows) {
  u64 i = (u64)block_x() * threads_x() + thread_x();
  if (i >= cells) return;
  u32 k = (u32)(i / 32 % buckets);
  u64 at = in_row_at((u32)(i / 32 / buckets * 32 + i % 32), buckets, k);
  in_rows[at] = in_row(k, n[i] > 0);
  if (n[i] > 0) keys[at] = sort_key(values[i]);
}
