// window_join: sums, means and extremes of windows, of what window_panes has made.
// Window k is the panes k*per to k*per+span-1: a suffix, the blocks between, which
// change once a block, and a prefix. span is larger than a block.
//
// Grid: x tiles of 32 series, four a block of 128 threads; y stretches of steps.
// A thread owns one series in one stretch.
// Reads two states a step, 12 bytes each for extremes, 24 for sums, and the counts of
// the newest panes. A sum whose bits are uncertain, as where large values of either
// sign cancel out, it makes again from the samples, as Prometheus does.
// Writes 16 bytes a step, and adds to the counts of the series: see
// WINDOW_PARAMETERS.
#include "panes.h"
#include "series.h"

// Where the samples of a series are.
struct Source {
  Columns c;
  u32 lane, first, end;
};

// The sum or mean of the samples after begin up to end, by Prometheus's operations.
template <u32 op>
DEVICE double anew(const Source& from, i64 begin, i64 end) {
  Walker w{};
  seek(w, from.c, from.lane, from.first, from.end, begin);
  State s{0, 0, 0, 0};
  for (; w.t <= end; next(w, from.c)) add_over_time<op>(s, from.c.values[w.at]);
  return result<op>(s);
}

template <u32 op>
DEVICE double value_of(const Extreme<op>& s, const Source&, i64, i64) {
  return s.s.value;
}

template <u32 op>
DEVICE double value_of(const Total& s, const Source& from, i64 begin, i64 end) {
  double v;
  return over_time(s, op == kAvg, v) ? v : anew<op>(from, begin, end);
}

// The samples of pane p alone.
template <class S>
DEVICE u32 samples_of(const Store<S>& prefix, u64 row, u32 p, u32 block) {
  u32 n = prefix.n(row + (u64)p * 32);
  return p % block == 0 ? n : n - prefix.n(row + (u64)(p - 1) * 32);
}

template <u32 op, class S>
DEVICE void windows(const Source& from, const Panes& panes, u32 span, const Stretch& mine, u64 row, Store<S> suffix,
                    Store<S> prefix, Results& to) {
  u32 begun = ~0u, ended = ~0u;  // blocks of the window's first and last pane
  S between = S::none();
  for (u32 k = mine.from; k < mine.to; k++) {
    u32 i = k * panes.per, j = i + span - 1;
    if (i / panes.block != begun || j / panes.block != ended) {
      begun = i / panes.block;
      ended = j / panes.block;
      between = S::none();
      for (u32 b = begun + 1; b < ended; b++) between.join(suffix.load(row + (u64)b * panes.block * 32));
    }
    S s = suffix.load(row + (u64)i * 32);
    s.join(between);
    s.join(prefix.load(row + (u64)j * 32));
    u32 n = s.n(), fresh = n;
    if (k > 0) {
      fresh = samples_of(prefix, row, j, panes.block);
      if (panes.per == 2) fresh += samples_of(prefix, row, j - 1, panes.block);
    }
    u64 v = n > 0 ? as_bits(value_of<op>(s, from, panes.begin(i), panes.end(j))) : kAbsent;
    emit(to, v, n, fresh, n);
  }
}

KERNEL MAX_THREADS(128) window_join(WINDOW_PARAMETERS, i64 head, u32 per, u32 count, u32 block, u32 span, u32 op,
                                    u8* suffix, u8* prefix) {
  Stretch mine = my_stretch(steps, length);
  if (mine.tile >= tiles || mine.from >= steps) return;
  Panes panes{start - width, interval, head, per, count, block};
  Source from{Columns{rows, chunks, times, values}, mine.lane, first[mine.tile], first[mine.tile + 1]};
  u64 entries = (u64)tiles * count * 32, row = (u64)mine.tile * count * 32 + mine.lane;
  Results to = results_of(mine, steps, out, reads, counts);
  switch (op) {
    case kSum: windows<kSum, Total>(from, panes, span, mine, row, {suffix, entries}, {prefix, entries}, to); break;
    case kAvg: windows<kAvg, Total>(from, panes, span, mine, row, {suffix, entries}, {prefix, entries}, to); break;
    case kMin: windows<kMin, Extreme<kMin>>(from, panes, span, mine, row, {suffix, entries}, {prefix, entries}, to); break;
    default: windows<kMax, Extreme<kMax>>(from, panes, span, mine, row, {suffix, entries}, {prefix, entries}, to);
  }
  finish(to);
}
