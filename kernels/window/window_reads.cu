// window_reads: how many samples the windows of each step hold, over all series, and how many of
// them no earlier step's window has, of queries that ask for statistics.
//
// Computes: all[k] += the samples in (start+k*interval-width, start+k*interval]; fresh[k] += those
//   of them behind the end of step k-1. Of an instant selector both += 1 where `out` has a value.
//   The order of integers does not matter.
// Grid: x tiles of 32 series, four a block of 128 threads; y ranges of steps.
// A thread owns one series at `length` steps. It walks as window_ends does, and begins a step early,
//   to know what that has seen.
// Bytes per sample, where a step passes four: reads 6 to 12 of times. Adds 16 a step and series.
// Operations per sample: about 10.
#include "job.h"

KERNEL MAX_THREADS(128) window_reads(WINDOW_PARAMETERS, Flag instant, u64* __restrict__ all, u64* __restrict__ fresh) {
  (void)counts;
  WindowJob job = WINDOW_JOB;
  if (!job.owns(tiles)) return;
  const StepRange& mine = job.mine;
  Walker lo = job.begin(), hi = lo;
  u32 lo_index = 0, hi_index = 0, seen = 0;  // sample numbers from the first window's first
  for (u32 k = mine.from > 0 ? mine.from - 1 : 0; k < mine.to; k++) {
    i64 end = job.end(k);
    hi_index += advance(hi, job.c, end);
    lo_index += advance(lo, job.c, end - width);
    u32 n = hi_index - lo_index, news = hi_index - (lo_index > seen ? lo_index : seen);
    seen = hi_index;
    if (k < mine.from) continue;
    if (instant) n = news = out[job.cell(k)] != kAbsent;
    if (n > 0) atomic_add(&all[k], (u64)n);
    if (news > 0) atomic_add(&fresh[k], (u64)news);
  }
}
