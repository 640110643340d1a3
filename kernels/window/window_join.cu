// window_join: extremes of windows, of what window_panes has made.
//
// Computes: out[k] = suffix[i] + the blocks between, which change once a block + prefix[j],
//   where window k is the panes i = k*per to j = i+span-1, and + joins two states. span is
//   larger than a block.
// Grid: x tiles of 32 series, four a block of 128 threads; y ranges of steps.
// A thread owns one series at `length` steps.
// Bytes per step: reads two extremes of 12 bytes; writes 8, and adds to the series' counts.
// Operations per step: about 30.
#include "job.h"
#include "panes.h"

KERNEL MAX_THREADS(128) window_join(WINDOW_PARAMETERS, u32 per, u32 count, u32 block, u32 span, Operator op,
                                    u8* suffixes, u8* prefixes) {
  WindowJob job = WINDOW_JOB;
  if (!job.owns(tiles)) return;
  u64 entries = (u64)tiles * count * 32, row = (u64)job.mine.tile * count * 32 + job.mine.lane;
  const Store suffix(suffixes, entries), prefix(prefixes, entries);
  Results to = results_of(job, out, counts);
  u32 begun = ~0u, ended = ~0u;  // blocks of the window's first and last pane
  Extreme between = Extreme::none(op);
  for (u32 k = job.mine.from; k < job.mine.to; k++) {
    u32 i = k * per, j = i + span - 1;
    if (i / block != begun || j / block != ended) {
      begun = i / block;
      ended = j / block;
      between = Extreme::none(op);
      for (u32 b = begun + 1; b < ended; b++) between.join(suffix.load(row + (u64)b * block * 32));
    }
    Extreme s = suffix.load(row + (u64)i * 32);
    s.join(between);
    s.join(prefix.load(row + (u64)j * 32));
    emit(to, s.count > 0 ? as_bits(s.value) ^ turn_of(op) : kAbsent, s.count);
  }
  finish(to);
}
