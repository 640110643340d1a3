// series_rows: transposes the output of a window kernel to a row a series.
//
// Computes: rows[(tile*32+lane)*steps+step] = values[(tile*steps+step)*32+lane], and bit
//   `step` of present[(tile*32+lane)*words...] = whether that is a value.
// Grid: x 32 steps, a block of 32 threads; y tiles of 32 series, in strides of the grid.
// A block transposes squares of 32 series by 32 steps in shared memory. A thread owns one
//   series when it loads and one step when it stores.
// Bytes per series and step: reads 8, writes 8 and a bit.
// Operations per series and step: 3.
#include "squares.h"

KERNEL MAX_THREADS(32) series_rows(const double* __restrict__ values, u32 tiles, u32 steps, u32 words,
                                   double* __restrict__ rows, u32* __restrict__ present) {
  SHARED double turned[kSide][kSide + 1];
  Squares q = squares_of(values, steps, block_x());
  u32 me = thread_x();
  for (u32 tile = block_y(); tile < tiles; tile += blocks_y()) {
    double v[kSide];
    q.load(tile, v);
    u32 bits = 0;
    UNROLL for (u32 k = 0; k < kSide; k++) bits |= (u32)(k < q.height && as_bits(v[k]) != kAbsent) << k;
    u32* mine = present + ((u64)tile * kSide + me) * words;
    mine[block_x()] = bits;
    if (q.first + kSide >= steps) {
      for (u32 w = block_x() + 1; w < words; w++) mine[w] = 0;
    }
    barrier();  // all have read what is there
    UNROLL for (u32 k = 0; k < kSide; k++) turned[k][me] = v[k];
    barrier();
    if (me >= q.height) continue;
    double* to = rows + (u64)tile * kSide * steps + q.first + me;
    UNROLL for (u32 lane = 0; lane < kSide; lane++) to[(u64)lane * steps] = turned[me][lane];
  }
}
