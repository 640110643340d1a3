// series_rows: which steps of the rows that window kernels wrote have a value.
//
// Computes: bit `step` of present[row*words...] = whether values[row*steps+step] is a value.
// Grid: x 32 steps, a block of 32 threads; y rows, in strides of the grid.
// A thread owns one step of a row, and a warp a word of its bits.
// Bytes per series and step: reads 8, writes a bit.
// Operations per series and step: 20.
#include "../abi/series.h"

KERNEL MAX_THREADS(32) series_rows(const u64* __restrict__ values, u32 rows, u32 steps, u32 words, u32* __restrict__ present) {
  u32 lane = thread_x(), k = block_x() * 32 + lane;
  for (u32 row = block_y(); row < rows; row += blocks_y()) {
    u64 bits[1] = {(u64)(k < steps && values[(u64)row * steps + k] != kAbsent) << lane}, other[1];
    for (u32 apart = 16; apart > 0; apart /= 2) {
      shuffle_xor(bits, other, apart);
      bits[0] |= other[0];
    }
    u32* mine = present + (u64)row * words;
    if (lane == 0) mine[block_x()] = (u32)bits[0];
    // A bitmap is whole words of 64 bits.
    if (lane == 1 && block_x() + 2 == words && blocks_x() + 1 == words) mine[block_x() + 1] = 0;
  }
}
