// check: the sum of numbers, by way of everything that kernels ask of a device: lanes that
// shuffle, memory shared in a block, a barrier, reciprocals of integers that are as near as quotients need
// (../window/plain.h): no document of the instruction says how near. A device whose sums are wrong is not used.
//
// Computes: sums[b] = numbers[256*b] + ... + numbers[256*b+255], and more where a reciprocal of n < 2^16 is too rough.
// Grid: one block of 256 threads for each 256 numbers.
// A thread owns one number, and its part of the reciprocals; a block writes its sum.
// Bytes per number: reads 4. Writes 4 a block.
// Operations per number: 6, and 9 a reciprocal.
#include "../abi/compiler.h"

KERNEL MAX_THREADS(256) check(const u32* __restrict__ numbers, u32 count, u32* __restrict__ sums) {
  SHARED u32 warps[8];
  u32 id = block_x() * threads_x() + thread_x();
  u32 sum = id < count ? numbers[id] : 0;
  for (u32 n = id + 1; n < 1 << 16; n += blocks_x() * threads_x()) {
    double rest = fused_multiply_add(-(double)n, rough_reciprocal(n), 1);
    if (!(__builtin_fabs(rest) <= 0x1p-18)) sum++;
  }
  for (u32 down = 16; down > 0; down /= 2) sum += shuffle_down(sum, down);
  if (thread_x() % 32 == 0) warps[thread_x() / 32] = sum;
  barrier();
  if (thread_x() == 0) {
    u32 all = 0;
    for (u32 w = 0; w < threads_x() / 32; w++) all += warps[w];
    sums[block_x()] = all;
  }
}
