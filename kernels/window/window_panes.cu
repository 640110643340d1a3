// window_panes: extremes of panes, for windows that share much. window_join makes windows of them.
//
// Computes, for each pane p of block b, a number of neighbouring panes:
//   suffix[p] = the samples from the pane on to the end of the block
//   prefix[p] = those from the beginning of the block up to the end of the pane
//   Every window is then a suffix, whole blocks, and a prefix.
// Grid: x tiles of 32 series, four a block of 128 threads; y blocks of panes.
// A thread owns one series in one block of panes.
// Bytes per sample: reads its value, 2 to 8, once, and times where they are not regular. Writes two
//   extremes of 12 bytes a pane and reads and writes the suffixes again; window_join reads two.
// Operations per sample: 4 for stored integers; and per pane 80 to find its rows, 20 for either pass.
#include "panes.h"

// Suffixes that are loaded before the first of them is waited for.
const u32 kBack = 4;

DEVICE void fill(const Columns& c, Walker w, Operator op, const Panes& panes, u32 from, u32 to, u64 row,
                 Store suffix, Store prefix) {
  Extreme all = Extreme::none(op);
  for (u32 p = from; p < to; p++) {
    Extreme s = Extreme::none(op);
    pass_rows(c, w, panes.end(p), s);
    all.join(s);
    suffix.store(row + (u64)p * 32, s);
    prefix.store(row + (u64)p * 32, all);
  }
  all = Extreme::none(op);
  NO_UNROLL for (u32 p = to; p > from; p -= kBack < p - from ? kBack : p - from) {
    Extreme s[kBack];
    UNROLL for (u32 i = 0; i < kBack; i++) {
      if (i < p - from) s[i] = suffix.load(row + (u64)(p - 1 - i) * 32);
    }
    UNROLL for (u32 i = 0; i < kBack; i++) {
      if (i >= p - from) break;
      s[i].join(all);
      all = s[i];
      suffix.store(row + (u64)(p - 1 - i) * 32, all);
    }
  }
}

KERNEL MAX_THREADS(128) window_panes(COLUMNS_PARAMETERS, i64 base, i64 interval, i64 head, u32 per,
                                     u32 count, u32 block, Operator op, u8* suffix, u8* prefix) {
  u32 id = block_x() * threads_x() + thread_x(), tile = id / 32, lane = id % 32;
  u32 from = block_y() * block, to = from + block < count ? from + block : count;
  if (tile >= tiles || from >= count) return;
  Panes panes{base, interval, head, per};
  const Columns c = COLUMNS;
  Walker w{};
  seek(w, c, lane, first[tile], first[tile + 1], panes.begin(from));
  u64 entries = (u64)tiles * count * 32, row = (u64)tile * count * 32 + lane;
  fill(c, w, op, panes, from, to, row, {suffix, entries}, {prefix, entries});
}
