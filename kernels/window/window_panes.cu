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
// Bytes per sample: reads 16 (time and value), once. Writes two states a pane and reads and
//   writes the suffixes again: 4*b bytes a pane, where b is 12 for extremes, 24 for sums. With
//   a pane for every s samples that makes 16+4*b/s bytes a sample, and of window_join
//   (2*b+16)/s: in all 30 and 54 where s is 4.
// Operations per sample: about 14 for extremes, 30 for sums.
#include "panes.h"
#include "walker.h"

template <class S>
DEVICE void fill(const Columns& c, Walker w, const Panes& panes, u32 from, u32 to, u64 row, Store<S> suffix, Store<S> prefix) {
  S all = S::none();
  double ahead = value_at(w);
  for (u32 p = from; p < to; p++) {
    S s = S::none();
    i64 end = panes.end(p);
    while (w.t <= end) {
      double v = ahead;
      next(w, c);
      ahead = value_at(w);
      s.add(v);
    }
    all.join(s);
    suffix.store(row + (u64)p * 32, s);
    prefix.store(row + (u64)p * 32, all);
  }
  all = S::none();
  for (u32 p = to; p-- > from;) {
    S s = suffix.load(row + (u64)p * 32);
    s.join(all);
    all = s;
    suffix.store(row + (u64)p * 32, all);
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
  switch (op) {
    case kMin: return fill<Extreme<kMin>>(c, w, panes, from, to, row, {suffix, entries}, {prefix, entries});
    case kMax: return fill<Extreme<kMax>>(c, w, panes, from, to, row, {suffix, entries}, {prefix, entries});
    default: return fill<Total>(c, w, panes, from, to, row, {suffix, entries}, {prefix, entries});
  }
}
