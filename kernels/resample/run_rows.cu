// run_rows: what an aggregate makes of states, of runs or of groups.
//
// Computes: values[row*buckets+k] = the aggregate of the state of that number, of those that have samples; and
//   bit k of present[row*words...] = whether there is one, unless that is null.
// Grid: x 32 buckets, a block of 32 threads; y rows, in strides of the grid.
// A thread owns one bucket of a row, and a warp a word of its bits.
// Bytes per state: reads 4 and the fields that the aggregate reads, 8 each, or with `found` 8 of what was found
//   already; writes 8 and a bit.
// Operations per state: at most 4 of the aggregate, and 20 for the bits.
#include "../values/bits.h"
#include "state.h"

KERNEL MAX_THREADS(32) run_rows(u32* __restrict__ n, double* __restrict__ fields, u32 parts, u32 aggregate,
                                const double* __restrict__ found, u32 rows, u32 buckets, double* __restrict__ values,
                                u32 words, u32* __restrict__ present) {
  States states{n, fields, buckets, parts};
  Parts wanted = parts_of(aggregate);
  u32 lane = thread_x(), k = block_x() * 32 + lane;
  for (u32 row = block_y(); row < rows; row += blocks_y()) {
    u64 cell = (u64)row * buckets + k;
    bool there = k < buckets && n[cell] > 0;
    if (there) values[cell] = aggregate == kFound ? found[cell] : result_of(aggregate, states.load(row, k, wanted));
    if (present) store_bits(there, present + (u64)row * words, words);
  }
}
