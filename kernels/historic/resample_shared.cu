// resample_shared, the experiment's third kernel and, on several streams, its fourth: a block
// fetches the values of its means together, so that loads coalesce, and adds them up in shared
// memory.
//
// Computes: what resample_atomic does, of at most 16 values a mean.
// Grid: one block of 256 threads for each 256 means.
// A thread owns one mean.
// Bytes per value: reads 4. Writes 4 a mean.
// Operations per value: 1.
#include "historic.h"

KERNEL MAX_THREADS(256) resample_shared(const float* __restrict__ values, u32 means, u32 ratio, float* __restrict__ out) {
  SHARED float tile[256 * 16];
  u32 first = block_x() * 256;
  u32 mine = means - first < 256 ? means - first : 256;
  const float* from = values + (u64)first * ratio;
  for (u32 i = thread_x(); i < mine * ratio; i += 256) tile[i] = from[i];
  barrier();
  if (thread_x() >= mine) return;
  float sum = 0;
  for (u32 i = 0; i < ratio; i++) sum += tile[thread_x() * ratio + i];
  out[first + thread_x()] = sum / (float)ratio;
}
