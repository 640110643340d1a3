// Bitmaps of what there is of a row, a bit a step or bucket.
#pragma once
#include "../abi/series.h"

// Stores a word of the bits of a row, block_x()'s of as many as the grid has, each bit from a lane of a block of 32
// threads.
DEVICE void store_bits(bool there, u32* row, u32 words) {
  u64 bits[1] = {(u64)there << thread_x()}, other[1];
  for (u32 apart = 16; apart > 0; apart /= 2) {
    shuffle_xor(bits, other, apart);
    bits[0] |= other[0];
  }
  if (thread_x() == 0) row[block_x()] = (u32)bits[0];
  // A bitmap is whole words of 64 bits.
  if (thread_x() == 1 && block_x() + 2 == words && blocks_x() + 1 == words) row[block_x() + 1] = 0;
}
