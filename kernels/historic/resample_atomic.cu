// resample_atomic, the experiment's first kernel: a thread for every mean. What it reads lies
// apart from what its neighbours read, and it adds in device memory.
//
// Computes: out[m] = (values[m*ratio] + ... + values[m*ratio+ratio-1]) / ratio.
// Grid: one thread a mean, blocks of any size.
// A thread owns one mean, which must be 0 before.
// Bytes per value: reads 4, and adds to 4 of its mean.
// Operations per value: 1.
#include "historic.h"

KERNEL resample_atomic(const float* __restrict__ values, u32 means, u32 ratio, float* out) {
  u32 id = block_x() * threads_x() + thread_x();
  if (id >= means) return;
  const float* mine = values + (u64)id * ratio;
  for (u32 i = 0; i < ratio; i++) atomic_add(&out[id], mine[i]);
  out[id] /= (float)ratio;
}
