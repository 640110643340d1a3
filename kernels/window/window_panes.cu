// window_panes: sums and extremes of panes, for windows that share much. window_join makes
// windows of them.
//
// Computes, for each pane p of block b, a number of neighbouring panes:
//   suffix[p] = the samples from the pane on to the end of the block
//   prefix[p] = those from the beginning of the block up to the end of the pane
//   as an extreme, or as a sum in twice the precision. Every window is then a suffix, whole
//   blocks, and a prefix, and no sample is taken out of a sum again.
// Grid: x tiles of 32 series, four a block of 128 threads; y blocks of panes.
// A thread owns one series in one block of panes.
// Bytes per sample: reads its value, 2 to 8, once, and times where they are not regular. Writes two
//   states a pane and reads and writes the suffixes again: 4*b bytes a pane, where b is 12 for
//   extremes, 24 for sums; window_join reads 2*b.
// Operations per sample: 4 for extremes of stored integers, 20 for sums; and per pane 80 to find its
//   rows, 40 for either pass.
#include "panes.h"

// Suffixes that are loaded before the first of them is waited for.
const u32 kBack = 4;

template <class S>
DEVICE void fill(const Columns& c, Walker w, Operator op, const Panes& panes, u32 from, u32 to, u64 row,
                 Store<S> suffix, Store<S> prefix) {
  S all = S::none(op);
  for (u32 p = from; p < to; p++) {
    S s = S::none(op);
    pass_rows(c, w, panes.end(p), s);
    all.join(s);
    suffix.store(row + (u64)p * 32, s);
    prefix.store(row + (u64)p * 32, all);
  }
  all = S::none(op);
  NO_UNROLL for (u32 p = to; p > from; p -= kBack < p - from ? kBack : p - from) {
    S s[kBack];
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
  Panes panes{base, interval, head, per, count, block};
  const Columns c = COLUMNS;
  Walker w{};
  seek(w, c, lane, first[tile], first[tile + 1], panes.begin(from));
  u64 entries = (u64)tiles * count * 32, row = (u64)tile * count * 32 + lane;
  if (op == kMin || op == kMax) {
    fill<Extreme>(c, w, op, panes, from, to, row, {suffix, entries}, {prefix, entries});
  } else {
    fill<Total>(c, w, op, panes, from, to, row, {suffix, entries}, {prefix, entries});
  }
}
