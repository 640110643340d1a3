// value_keys: values of the runs of a batch as keys of their order, for group_order.
//
// Computes: of each lane and bucket k, in the row of the series, which has a key a bucket, keys[lane*buckets+k] =
//   the key of the run's value, if there is one, and which keys of the row that is: one or none.
// Grid: one thread a run, blocks of 128.
// A thread owns one run.
// Bytes per run: reads 12, writes 16.
// Operations per run: 10.
#include "order.h"

KERNEL MAX_THREADS(128) value_keys(const u32* __restrict__ n, const double* __restrict__ values, u64 cells,
                                   u32 buckets, u64* __restrict__ keys, u64* __restrict__ in_rows) {
  u64 i = (u64)block_x() * threads_x() + thread_x();
  if (i >= cells) return;
  in_rows[i] = in_row((u32)(i % buckets), n[i] > 0);
  if (n[i] > 0) keys[i] = sort_key(values[i]);
}
