// window_ends: window functions that look at a window's first or last sample: the
// instant selector, the first and the last value, their times, and how many samples
// there are.
//
// Grid: x tiles of 32 series, four a block of 128 threads; y stretches of steps.
// A thread owns one series in one stretch. It walks along the samples with two
// places, the window's start and its end, and writes a value a step. It begins a
// step early, to know what that has seen.
// It passes samples by fours. Reads, where a step passes four samples, three of their
// times twice (the second time they are in a cache unless the window is long), and
// one of their values: 8 to 14 bytes a sample.
// Writes 16 bytes a step, and adds to the counts of the series: see
// WINDOW_PARAMETERS.
#include "ends.h"

DEVICE double value_of(u32 kind, const Columns& c, const Walker& lo, u32 n, u64 last) {
  switch (kind) {
    case kInstant:
    case kInstantTime:
    case kNewest: return c.values[last];
    case kOldest: return c.values[lo.at];
    case kNewestTime: return seconds_of(c.times[last]);
    case kOldestTime: return seconds_of(lo.t);
    case kNumber: return n;
    default: return 1;  // present
  }
}

KERNEL MAX_THREADS(128) window_ends(WINDOW_PARAMETERS, u32 kind) {
  Stretch mine = my_stretch(steps, length);
  if (mine.tile >= tiles || mine.from >= steps) return;
  Columns c{rows, chunks, times, values};
  Walker lo{};
  seek(lo, c, mine.lane, first[mine.tile], first[mine.tile + 1], start + (i64)mine.from * interval - width);
  Walker hi = lo;
  u32 lo_index = 0, hi_index = 0, seen = 0;  // sample numbers from the stretch's first
  u32 k = mine.from > 0 ? mine.from - 1 : 0;
  u64 last = 0, passed;  // the places of the samples before hi and before lo
  if (mine.from > 0 && is_wide(interval, width)) {
    bool falls;
    hi_index = leap(hi, c, start + (i64)k * interval, last, falls);
  }
  Results to = results_of(mine, steps, out, reads, counts);
  for (; k < mine.to; k++) {
    i64 end = start + (i64)k * interval;
    hi_index += advance(hi, c, end, last);
    lo_index += advance(lo, c, end - width, passed);
    u32 n = hi_index - lo_index, fresh = since(hi_index, lo_index, seen);
    seen = hi_index;
    if (k < mine.from) continue;
    u64 result = n > 0 ? as_bits(value_of(kind, c, lo, n, last)) : kAbsent;
    if (kind == kInstant || kind == kInstantTime) {
      // A stale marker, which only an instant selector meets, is kAbsent.
      u32 read = result != kAbsent;
      if (read && kind == kInstantTime) result = as_bits(seconds_of(c.times[last]));
      emit(to, result, read, read, 0);
      continue;
    }
    emit(to, result, n, fresh, n);
  }
  finish(to);
}
