// window_all: window functions that look at every sample of a window: sum, avg,
// min, max and count over time.
//
// Grid: x tiles of 32 series, four a block of 128 threads; y stretches of steps.
// A thread owns one series in one stretch. It computes four neighbouring windows
// at once, so that a sample is loaded once for all of them.
// Reads times and values, 16 bytes for each sample and four windows that hold it;
// what windows share is mostly in a cache.
// Writes out[(tile*steps+step)*32+lane], 8 bytes a step, kAbsent where there is no
// value; and adds to the counts of the series.
// Step k reads the window (start+k*interval-width, start+k*interval], in ms.
#include "series.h"
#include "sums.h"

const u32 kAbreast = 4;

struct WindowJob {
  i64 start, interval;
  u32 steps;
  i64 width;
  u64* __restrict__ out;
  SeriesCounts* __restrict__ counts;
};

template <u32 op>
DEVICE void windows(const Columns& c, const Stretch& mine, Walker lo, const WindowJob& job) {
  SeriesCounts count{0, 0, 0};
  for (u32 k = mine.from; k < mine.to; k += kAbreast) {
    i64 end = job.start + (i64)k * job.interval, begin = end - job.width;
    while (lo.t <= begin) next(lo, c);
    State s[kAbreast];
    for (u32 w = 0; w < kAbreast; w++) s[w] = State{0, 0, 0, 0};
    u32 windows = mine.to - k < kAbreast ? mine.to - k : kAbreast;
    i64 last = end + (i64)(windows - 1) * job.interval;
    Walker at = lo;
    double ahead = op == kCount ? 0 : value_at(at, c);
    while (at.t <= last) {
      double v = ahead;
      i64 t = at.t;
      next(at, c);
      if (op != kCount) ahead = value_at(at, c);
      for (u32 w = 0; w < kAbreast; w++) {
        i64 moved = (i64)w * job.interval;
        if (t <= begin + moved || t > end + moved) continue;
        if (op == kSum) {  // it begins with zero, unlike the aggregation of that name
          s[w].n++;
          add_compensated(v, s[w].value, s[w].lost);
        } else {
          add_value<op>(s[w], v);
        }
      }
    }
    for (u32 w = 0; w < windows; w++) {
      u32 n = s[w].n;
      double v = result<op>(s[w]);
      store_streaming(job.out + ((u64)mine.tile * job.steps + k + w) * 32 + mine.lane, n > 0 ? as_bits(v) : kAbsent);
      if (n > 0) count.points++;
      if (n > count.most) count.most = n;
      if (k + w == job.steps - 1) count.last = n;
    }
  }
  note(job.counts[mine.tile * 32 + mine.lane], count);
}

KERNEL MAX_THREADS(128) window_all(const u32* __restrict__ first, u32 tiles, const u64* __restrict__ rows,
                                   const Decoded* __restrict__ chunks, const i64* __restrict__ times,
                                   const double* __restrict__ values, i64 start, i64 interval, u32 steps, i64 width,
                                   u32 length, u32 op, u64* __restrict__ out, SeriesCounts* __restrict__ counts) {
  Stretch mine = my_stretch(steps, length);
  if (mine.tile >= tiles || mine.from >= steps) return;
  Columns c{rows, chunks, times, values};
  Walker lo{};
  seek(lo, c, mine.lane, first[mine.tile], first[mine.tile + 1], start + (i64)mine.from * interval - width);
  WindowJob job{start, interval, steps, width, out, counts};
  switch (op) {
    case kSum: windows<kSum>(c, mine, lo, job); break;
    case kAvg: windows<kAvg>(c, mine, lo, job); break;
    case kMin: windows<kMin>(c, mine, lo, job); break;
    case kMax: windows<kMax>(c, mine, lo, job); break;
    default: windows<kCount>(c, mine, lo, job);
  }
}
