// Windows that are computed from all their samples, four neighbouring ones at once,
// so that a sample is loaded once for all of them.
#pragma once
#include "series.h"

// The windows computed at once. Mirrors kernels.WindowAbreast.
const u32 kAbreast = 4;

// What a state is made with: parameters of its function, and the time of the step it
// is for, ms.
struct Asked {
  double param, trend;
  i64 step;
};

struct Windows {
  i64 start, interval, width;
  i64 step, step_interval;  // the times of the steps themselves
  double param, trend;
  DEVICE Asked asked(u32 k) const { return Asked{param, trend, step + (i64)k * step_interval}; }
};

// Makes the states S of a thread's windows: S(asked), of which add takes the samples
// (number, time, value), and value is that of a number of samples.
template <class S>
DEVICE void abreast(const Columns& c, const Stretch& mine, Walker lo, const Windows& job, Results& to) {
  for (u32 k = mine.from; k < mine.to; k += kAbreast) {
    i64 end = job.start + (i64)k * job.interval, begin = end - job.width;
    while (lo.t <= begin) next(lo, c);
    S s[kAbreast] = {S(job.asked(k)), S(job.asked(k + 1)), S(job.asked(k + 2)), S(job.asked(k + 3))};
    u32 n[kAbreast] = {0, 0, 0, 0};
    u32 upto[kAbreast] = {0, 0, 0, 0}, seen = 0;  // samples up to the ends of the windows and of the step before
    u32 windows = mine.to - k < kAbreast ? mine.to - k : kAbreast;
    i64 last = end + (i64)(windows - 1) * job.interval;
    Walker at = lo;
    double ahead = value_at(at, c);
    while (at.t <= last) {
      double v = ahead;
      i64 t = at.t;
      next(at, c);
      ahead = value_at(at, c);
      if (t <= end - job.interval) seen++;
      for (u32 w = 0; w < kAbreast; w++) {
        i64 moved = (i64)w * job.interval;
        if (t > end + moved) continue;
        upto[w]++;
        if (t > begin + moved) s[w].add(n[w]++, t, v, job.asked(k + w));
      }
    }
    for (u32 w = 0; w < windows; w++) {
      u32 fresh = k + w == 0 ? n[w] : since(upto[w], upto[w] - n[w], seen);
      seen = upto[w];
      emit(to, n[w] > 0 ? s[w].value(n[w], job.asked(k + w)) : kAbsent, n[w], fresh, n[w]);
    }
  }
}
