// window_all: window functions that look at every sample of a window: sum, avg,
// min and max over time, where windows share little. Where they share much there
// is window_panes.
//
// Grid: x tiles of 32 series, four a block of 128 threads; y stretches of steps.
// A thread owns one series in one stretch. It computes four neighbouring windows
// at once, so that a sample is loaded once for all of them.
// Reads times and values, 16 bytes for each sample and four windows that hold it;
// what windows share is mostly in a cache.
// Writes 16 bytes a step, and adds to the counts of the series: see
// WINDOW_PARAMETERS.
#include "abreast.h"
#include "sums.h"

template <u32 op>
struct OverTime {
  State s;
  DEVICE OverTime(const Asked&) : s{0, 0, 0, 0} {}
  DEVICE void add(u32, i64, double v, const Asked&) { add_over_time<op>(s, v); }
  DEVICE u64 value(u32, const Asked&) const { return as_bits(result<op>(s)); }
};

KERNEL MAX_THREADS(128) window_all(WINDOW_PARAMETERS, u32 op) {
  Stretch mine = my_stretch(steps, length);
  if (mine.tile >= tiles || mine.from >= steps) return;
  Columns c{rows, chunks, times, values};
  Walker lo{};
  seek(lo, c, mine.lane, first[mine.tile], first[mine.tile + 1], start + (i64)mine.from * interval - width);
  Windows job{start, interval, width, 0, 0, 0, 0};
  Results to = results_of(mine, steps, out, reads, counts);
  switch (op) {
    case kSum: abreast<OverTime<kSum>>(c, mine, lo, job, to); break;
    case kAvg: abreast<OverTime<kAvg>>(c, mine, lo, job, to); break;
    case kMin: abreast<OverTime<kMin>>(c, mine, lo, job, to); break;
    default: abreast<OverTime<kMax>>(c, mine, lo, job, to);
  }
  finish(to);
}
