// window_distance: the median absolute deviation over time.
//
// Computes, of the values in (start+k*interval-width, start+k*interval], the median of their distances to
//   their median; NaN if one is.
// Grid: x tiles of 32 series, two a block of 64 threads; y ranges of steps.
// A thread owns one series at `length` steps. It keeps the values of the window sorted in shared memory,
//   512 bytes a thread, where a sample that enters or leaves moves those beside it. Windows of more than 64
//   samples it looks at 128 times instead.
// Bytes per sample: 16 to 32: times and values twice (the second time they are in a cache unless the
//   window is long). Writes 8 a step, and adds to the series' counts.
// Operations per sample: 20, and 4 for each of the half of the window that is moved, twice.
#include "job.h"
#include "sorted.h"

const u32 kThreads = 64;
const u32 kMost = 64;

DEVICE double median_distance(Unsorted u) {
  Walker w = u.first;
  for (u32 i = 0; i < u.n; i++, next(w, u.c)) {
    double v = u.value(w);
    if (v != v) return v;
  }
  Position p = position_of(0.5, u.n);
  double lower, upper;
  select(u, p, lower, upper);
  u.distances = true;
  u.from = between(lower, upper, p.weight);
  select(u, p, lower, upper);
  return between(lower, upper, p.weight);
}

KERNEL MAX_THREADS(64) window_distance(WINDOW_PARAMETERS) {
  SHARED double values_in_order[kMost * kThreads];
  WindowJob job = WINDOW_JOB;
  if (!job.owns(tiles)) return;
  const Columns& c = job.c;
  Walker lo = job.begin(), hi = lo;
  auto to = results_of<kThreads>(job, out, counts);
  u32 n = 0;                                            // samples from lo to hi
  Sorted s{values_in_order + thread_x(), kThreads, 0};  // the window's values, if it has no more than kMost
  bool sorted = true;
  double hi_value = value_at(hi);
  for (u32 k = job.mine.from; k < job.mine.to; k++) {
    i64 end = job.end(k);
    while (lo.t <= end - width) {
      if (n > 0) {
        double v = value_at(lo);
        n--;
        if (sorted) s.remove(v);
        next(lo, c);
      } else {
        next(lo, c);
        hi = lo;
        hi_value = value_at(hi);
      }
    }
    while (hi.t <= end) {
      double v = hi_value;
      next(hi, c);
      hi_value = value_at(hi);
      sorted = sorted && n < kMost;
      if (sorted) s.insert(v);
      n++;
    }
    if (!sorted && n <= kMost) {
      sorted = true;
      s.n = 0;
      Walker w = lo;
      for (u32 i = 0; i < n; i++, next(w, c)) s.insert(value_at(w));
    }
    u64 result = kAbsent;
    if (n > 0) result = as_bits(sorted ? median_distance(s) : median_distance(Unsorted{c, lo, n, false, 0}));
    emit(to, result, n);
  }
  finish(to);
}
