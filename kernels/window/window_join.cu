// window_join: sums, means and extremes of windows, of what window_panes has made.
//
// Computes: out[k] = suffix[i] + the blocks between, which change once a block + prefix[j],
//   where window k is the panes i = k*per to j = i+span-1, and + joins two states. span is
//   larger than a block.
// Grid: x tiles of 32 series, four a block of 128 threads; y ranges of steps.
// A thread owns one series at `length` steps.
// Bytes per step: reads two states, 12 each for extremes, 24 for sums; writes 8, and adds to the
//   series' counts. A sum whose bits are uncertain,
//   as where large values of either sign cancel out, it makes again from the samples, as
//   Prometheus does: 16 bytes a sample.
// Operations per step: about 30 for extremes, 80 for sums.
#include "job.h"
#include "panes.h"

// The sum or mean of the samples after begin up to end, by Prometheus's operations.
DEVICE double anew(const WindowJob& job, Operator op, i64 begin, i64 end) {
  AnyOver s{op, State{0, 0, 0, 0}};
  u32 n = 0;
  for (Walker w = job.behind(begin); w.t <= end; next(w, job.c)) s.add(n++, 0, value_at(w));
  return as_double(s.found(n, 0, 0).value);
}

DEVICE double value_of(const Extreme& s, Operator op, const WindowJob&, i64, i64) {
  return as_double(as_bits(s.value) ^ turn_of(op));
}

DEVICE double value_of(const Total& s, Operator op, const WindowJob& job, i64 begin, i64 end) {
  double v;
  return over_time(s, op == kAvg, v) ? v : anew(job, op, begin, end);
}

template <class S>
DEVICE void windows(const WindowJob& job, Operator op, const Panes& panes, u32 span, u64 row, Store<S> suffix,
                    Store<S> prefix, Results& to) {
  u32 begun = ~0u, ended = ~0u;  // blocks of the window's first and last pane
  S between = S::none(op);
  for (u32 k = job.mine.from; k < job.mine.to; k++) {
    u32 i = k * panes.per, j = i + span - 1;
    if (i / panes.block != begun || j / panes.block != ended) {
      begun = i / panes.block;
      ended = j / panes.block;
      between = S::none(op);
      for (u32 b = begun + 1; b < ended; b++) between.join(suffix.load(row + (u64)b * panes.block * 32));
    }
    S s = suffix.load(row + (u64)i * 32);
    s.join(between);
    s.join(prefix.load(row + (u64)j * 32));
    u32 n = s.n();
    u64 v = n > 0 ? as_bits(value_of(s, op, job, panes.begin(i), panes.end(j))) : kAbsent;
    emit(to, v, n);
  }
}

KERNEL MAX_THREADS(128) window_join(WINDOW_PARAMETERS, i64 head, u32 per, u32 count, u32 block, u32 span, Operator op,
                                    u8* suffix, u8* prefix) {
  WindowJob job = WINDOW_JOB;
  if (!job.owns(tiles)) return;
  Panes panes{start - width, interval, head, per, count, block};
  u64 entries = (u64)tiles * count * 32, row = (u64)job.mine.tile * count * 32 + job.mine.lane;
  Results to = results_of(job, out, counts);
  if (op == kMin || op == kMax) {
    windows<Extreme>(job, op, panes, span, row, {suffix, entries}, {prefix, entries}, to);
  } else {
    windows<Total>(job, op, panes, span, row, {suffix, entries}, {prefix, entries}, to);
  }
  finish(to);
}
