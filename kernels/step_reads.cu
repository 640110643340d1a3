// step_reads: how many samples the windows of each step hold, over all series, and
// how many of them no earlier step's window has.
//
// Grid: x steps, four a block of 32 by 4 threads; y stretches of tiles of 32 series.
// Thread (x, y) owns lane x of one step in a stretch of tiles, and adds up what the
// window kernels counted.
// Reads 8 bytes a series and step: reads[(tile*steps+step)*32+lane].
// Adds to all[step] and fresh[step]: integers, whose order does not matter.
#include "shim.h"

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
