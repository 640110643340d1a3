// run_rows: what an aggregate makes of the states of runs, as a row a series.
//
// Computes: rows[(tile*32+lane)*buckets+k] = the aggregate of the run of that series in bucket k,
//   or what was found of it already, and bit k of present[(tile*32+lane)*words...] = whether there is one.
// Grid: x 32 buckets, a block of 32 by 8 threads; y tiles of 32 series, in strides of the grid.
// A block transposes squares of 32 series by 32 buckets in shared memory. A thread owns one series at
//   every eighth bucket when it loads, and one bucket of every eighth series when it stores.
// Bytes per run: reads 4 and the fields that the aggregate reads, 8 each; writes 8 and a bit.
// Operations per run: 3, and at most 4 of the aggregate.
#include "state.h"

const u32 kSide = 32;  // series and buckets of a square
const u32 kWarps = 8;

KERNEL MAX_THREADS(256) run_rows(u32* __restrict__ n, double* __restrict__ fields, u64 cells, u32 parts, u32 aggregate,
                                 const double* __restrict__ found, u32 tiles, u32 buckets, u32 words, double* __restrict__ rows, u32* __restrict__ present) {
  SHARED double turned[kSide][kSide + 1];
  SHARED u32 bits[kWarps][kSide];
  States states{n, fields, cells, parts};
  Parts wanted = parts_of(aggregate);
  u32 me = thread_x(), warp = thread_y(), first = block_x() * kSide;
  u32 height = buckets - first < kSide ? buckets - first : kSide;
  for (u32 tile = block_y(); tile < tiles; tile += blocks_y()) {
    barrier();  // all have read what is there
    u32 some = 0;
    for (u32 k = warp; k < height; k += kWarps) {
      u64 cell = ((u64)tile * buckets + first + k) * kSide + me;
      RunState s = states.load(cell, wanted);
      if (s.n == 0) continue;
      some |= 1u << k;
      turned[k][me] = aggregate == kFound ? found[cell] : result_of(aggregate, s);
    }
    bits[warp][me] = some;
    barrier();
    if (warp == 0) {
      for (u32 w = 1; w < kWarps; w++) some |= bits[w][me];
      u32* mine = present + ((u64)tile * kSide + me) * words;
      mine[block_x()] = some;
      if (first + kSide >= buckets) {
        for (u32 w = block_x() + 1; w < words; w++) mine[w] = 0;
      }
    }
    if (me >= height) continue;
    double* to = rows + (u64)tile * kSide * buckets + first + me;
    UNROLL for (u32 lane = warp; lane < kSide; lane += kWarps) to[(u64)lane * buckets] = turned[me][lane];
  }
}
