// step_reads: how many samples the windows of each step hold, over all series, and how many
// of them no earlier step's window has.
//
// Computes: all[k] += the lower halves of reads[(tile*steps+k)*32+lane], over tiles and lanes;
//   fresh[k] += the upper halves. The order of integers does not matter.
// Grid: x steps, four a block of 32 by 4 threads; y ranges of `length` tiles of 32 series.
// Thread (x, y) owns lane x of one step in a range of tiles.
// Bytes per series and step: reads 8. Writes 16 a step and range of tiles.
// Operations per series and step: 3.
#include "../abi/compiler.h"

KERNEL MAX_THREADS(128) step_reads(const u64* __restrict__ reads, u32 tiles, u32 steps, u32 length, u64* __restrict__ all,
                                   u64* __restrict__ fresh) {
  u32 k = block_x() * 4 + thread_y();
  u32 from = block_y() * length, to = from + length < tiles ? from + length : tiles;
  if (k >= steps || from >= tiles) return;
  u64 n = 0, news = 0;
  for (u32 tile = from; tile < to; tile++) {
    u64 r = reads[((u64)tile * steps + k) * 32 + thread_x()];
    n += (u32)r;
    news += r >> 32;
  }
  if (n) atomic_add(&all[k], n);
  if (news) atomic_add(&fresh[k], news);
}
