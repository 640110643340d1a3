// The strategy for stored samples of which a window looks at all: four neighbouring windows
// are computed at once, so that a sample is loaded once for all of them.
#pragma once
#include "job.h"
#include "policy.h"

// The windows computed at once, a part of a line.
const u32 kAbreast = 4;

// What a function is called with besides the samples: the times of the steps themselves, ms,
// and parameters.
struct Call {
  i64 first, interval;
  double param, trend;
};

// Computes the windows of a thread, of which lo is the first sample, by the policy f.
template <class F>
DEVICE void abreast(const WindowJob& job, const Call& call, Walker lo, const F& f, Results& to) {
  const Columns& c = job.c;
  for (u32 k = job.mine.from; k < job.mine.to; k += kAbreast) {
    i64 end = job.end(k), begin = end - job.width;
    while (lo.t <= begin) next(lo, c);
    F s[kAbreast] = {f, f, f, f};
    for (u32 w = 0; w < kAbreast; w++) {
      s[w].begin(Beginning{call.first + (i64)(k + w) * call.interval, call.param, call.trend, nullptr});
    }
    u32 n[kAbreast] = {0, 0, 0, 0};
    u32 windows = job.mine.to - k < kAbreast ? job.mine.to - k : kAbreast;
    i64 last = end + (i64)(windows - 1) * job.interval;
    Walker at = lo;
    double ahead = value_at(at);
    while (at.t <= last) {
      double v = ahead;
      i64 t = at.t;
      next(at, c);
      ahead = value_at(at);
      for (u32 w = 0; w < kAbreast; w++) {
        i64 moved = (i64)w * job.interval;
        if (t > begin + moved && t <= end + moved) s[w].add(n[w]++, t, v);
      }
    }
    for (u32 w = 0; w < windows; w++) {
      i64 moved = (i64)w * job.interval;
      emit(to, n[w] > 0 ? s[w].found(n[w], begin + moved, end + moved).value : kAbsent, n[w]);
    }
  }
}
