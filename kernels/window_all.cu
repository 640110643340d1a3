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
#include "series.h"
#include "sums.h"

struct Windows {
  i64 start, interval, width;
};

template <u32 op>
DEVICE void windows(const Columns& c, const Stretch& mine, Walker lo, const Windows& job, Results& to) {
  for (u32 k = mine.from; k < mine.to; k += kAbreast) {
    i64 end = job.start + (i64)k * job.interval, begin = end - job.width;
    while (lo.t <= begin) next(lo, c);
    State s[kAbreast];
    u32 fresh[kAbreast];
    for (u32 w = 0; w < kAbreast; w++) {
      s[w] = State{0, 0, 0, 0};
      fresh[w] = 0;
    }
    u32 windows = mine.to - k < kAbreast ? mine.to - k : kAbreast;
    i64 last = end + (i64)(windows - 1) * job.interval;
    Walker at = lo;
    double ahead = value_at(at, c);
    while (at.t <= last) {
      double v = ahead;
      i64 t = at.t;
      next(at, c);
      ahead = value_at(at, c);
      for (u32 w = 0; w < kAbreast; w++) {
        i64 moved = (i64)w * job.interval;
        if (t <= begin + moved || t > end + moved) continue;
        if (t > end + moved - fresh_for(k + w, job.interval, job.width)) fresh[w]++;
        add_over_time<op>(s[w], v);
      }
    }
    for (u32 w = 0; w < windows; w++) {
      u32 n = s[w].n;
      emit(to, n > 0 ? as_bits(result<op>(s[w])) : kAbsent, n, fresh[w], n);
    }
  }
}

KERNEL MAX_THREADS(128) window_all(WINDOW_PARAMETERS, u32 op) {
  Stretch mine = my_stretch(steps, length);
  if (mine.tile >= tiles || mine.from >= steps) return;
  Columns c{rows, chunks, times, values};
  Walker lo{};
  seek(lo, c, mine.lane, first[mine.tile], first[mine.tile + 1], start + (i64)mine.from * interval - width);
  Windows job{start, interval, width};
  Results to = results_of(mine, steps, out, reads, counts);
  switch (op) {
    case kSum: windows<kSum>(c, mine, lo, job, to); break;
    case kAvg: windows<kAvg>(c, mine, lo, job, to); break;
    case kMin: windows<kMin>(c, mine, lo, job, to); break;
    default: windows<kMax>(c, mine, lo, job, to);
  }
  finish(to);
}
