// resample_blocks, the experiment's second kernel: larger pieces of work. A thread makes
// several means, one after the other, in a register.
//
// Computes: what resample_atomic does.
// Grid: one thread for each `run` means, blocks of any size.
// A thread owns `run` neighbouring means.
// Bytes per value: reads 4. Writes 4 a mean.
// Operations per value: 1.
#include "historic.h"

KERNEL resample_blocks(const float* __restrict__ values, u32 means, u32 ratio, u32 run, float* __restrict__ out) {
  u64 first = (u64)(block_x() * threads_x() + thread_x()) * run;
  for (u64 id = first; id < first + run && id < means; id++) {
    const float* mine = values + id * ratio;
    float sum = 0;
    for (u32 i = 0; i < ratio; i++) sum += mine[i];
    out[id] = sum / (float)ratio;
  }
}
