// window_order: window functions of the order of a window's values: quantile and median
// absolute deviation over time.
//
// Computes, of the n values v(0) <= v(1) ... in (start+k*interval-width, start+k*interval],
//   NaN first: v(r)*(1-w) + v(r+1)*w, r + w = quantile*(n-1); or the median of the distances
//   to the median. Where the answer depends on how zeros of either sign are sorted, which
//   beyond 12 values is Go's business, it lowers *fault to kMixedZeros.
// Grid: x tiles of 32 series, two a block of 64 threads; y ranges of steps.
// A thread owns one series at `length` steps. Of stored integers it finds the ranks of a quantile in
//   registers (ranks.h). From the first window on that has others, or where the ranks are more than
//   16 from the nearer end, it keeps the values of the window sorted in shared memory, 512 bytes a
//   thread, where a sample that enters or leaves moves those beside it. Windows of more than 64
//   samples it looks at 64 times instead.
// Bytes per sample: reads 2 or 4 of integers for every window that holds it; else 16 to 32: times and
//   values twice (the second time they are in a cache unless the window is long). Writes 8 a step, and
//   adds to the series' counts.
// Operations per sample: 12 or 36 for every window that holds it; sorted, 20, and 4 for each of the half
//   of the window that is moved, twice.
#include "job.h"
#include "ranks.h"
#include "sorted.h"

const u32 kThreads = 64;
const u32 kMost = 64;
const u32 kStable = 12;  // up to so many values Go sorts equal ones in their order

// Counts zeros by their sign.
struct Zeros {
  u32 plus, minus;
  DEVICE void add(double v, u32 n) {
    if (v != 0) return;
    if (as_bits(v) >> 63) {
      minus += n;
    } else {
      plus += n;
    }
  }
};

// A sorted window's quantile, or false where it is uncertain.
DEVICE bool quantile_of(const Sorted& s, double q, const Zeros& zeros, double& v) {
  Position p = position_of(q, s.n);
  double lower = s[p.lower], upper = s[p.upper];
  v = between(lower, upper, p.weight);
  return s.n <= kStable || !zeros.plus || !zeros.minus || (lower != 0 && upper != 0);
}

// The same of a window that is too long to be sorted.
DEVICE bool quantile_of(const Unsorted& u, double q, double& v) {
  Position p = position_of(q, u.n);
  double lower, upper;
  select(u, p, lower, upper);
  if (lower == 0 || upper == 0) {
    Zeros zeros{0, 0};
    Walker w = u.first;
    for (u32 i = 0; i < u.n; i++, next(w, u.c)) zeros.add(u.value(w), 1);
    if (zeros.plus && zeros.minus) return false;
    double zero = zeros.minus ? -0.0 : 0.0;
    if (lower == 0) lower = zero;
    if (upper == 0) upper = zero;
  }
  v = between(lower, upper, p.weight);
  return true;
}

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

KERNEL MAX_THREADS(64) window_order(WINDOW_PARAMETERS, Flag distance, double quantile, u64* __restrict__ fault) {
  SHARED double values_in_order[kMost * kThreads];
  WindowJob job = WINDOW_JOB;
  if (!job.owns(tiles)) return;
  const Columns& c = job.c;
  Walker lo = job.begin(), hi = lo;
  auto to = results_of<kThreads>(job, out, counts);
  u32 n = 0;                                            // samples from lo to hi
  Sorted s{values_in_order + thread_x(), kThreads, 0};  // the window's values, if it has no more than kMost
  bool ranks = !distance, sorted = true, certain = true;
  Zeros zeros{0, 0};
  double hi_value = value_at(hi);
  for (u32 k = job.mine.from; k < job.mine.to; store_line(to)) {
    u32 line = job.mine.to - k < kLine ? job.mine.to : k + kLine;
    if (ranks) {
      k = by_ranks(job, quantile, k, line, lo, hi, n, to);
      if (k < line) {
        ranks = false;
        hi = lo;
        hi_value = value_at(hi);
        n = 0;
      }
    }
    for (; k < line; k++) {
      i64 end = job.end(k);
      while (lo.t <= end - width) {
        if (n > 0) {
          double v = value_at(lo);
          n--;
          zeros.add(v, ~0u);
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
        zeros.add(v, 1);
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
      if (n > 0) {
        double v = 0;
        Unsorted u{c, lo, n, false, 0};
        if (distance) {
          v = sorted ? median_distance(s) : median_distance(u);
        } else if (!(sorted ? quantile_of(s, quantile, zeros, v) : quantile_of(u, quantile, v))) {
          certain = false;
        }
        result = as_bits(v);
      }
      note(to, result, n);
    }
  }
  finish(to);
  if (!certain) atomic_min(fault, kMixedZeros);
}
