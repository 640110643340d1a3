// value_keys: values of the runs of a batch as keys of their order, for group_order.
//
// Computes: of each run i that there is the key of values[i] in row begins[i] of its tile and lane, one_n[i] = 1,
//   and begins[i] = its bucket, so that a tile has a row of keys a bucket; one_n[i] = 0 where there is none.
// Grid: one thread a run, blocks of 128.
// A thread owns one run.
// Bytes per run: reads 12, writes 16.
// Operations per run: 6.
#include "order.h"

KERNEL MAX_THREADS(128) value_keys(const u32* __restrict__ n, const double* __restrict__ values, u64 cells, u32 buckets,
                                   u64* __restrict__ keys, u32* __restrict__ begins, u32* __restrict__ one_n) {
  u64 i = (u64)block_x() * threads_x() + thread_x();
  if (i >= cells) return;
  one_n[i] = n[i] > 0;
  if (n[i] == 0) return;
  u32 series = (u32)(i / buckets), k = (u32)(i % buckets);
  keys[((u64)(series / 32) * buckets + k) * 32 + series % 32] = sort_key(values[i]);
  begins[i] = k;
}
