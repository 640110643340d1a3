// series_rows: which steps of the rows that window kernels wrote have a value.
//
// Computes: bit `step` of present[row*words...] = whether values[row*steps+step] is a value.
// Grid: x 32 steps, a block of 32 threads; y rows, in strides of the grid.
// A thread owns one step of a row, and a warp a word of its bits.
// Bytes per series and step: reads 8, writes a bit.
// Operations per series and step: 20.
#include "bits.h"

KERNEL MAX_THREADS(32) series_rows(const u64* __restrict__ values, u32 rows, u32 steps, u32 words, u32* __restrict__ present) {
  u32 k = block_x() * 32 + thread_x();
  for (u32 row = block_y(); row < rows; row += blocks_y()) {
    store_bits(k < steps && values[(u64)row * steps + k] != kAbsent, present + (u64)row * words, words);
  }
}
