// window_select: quantiles over time.
//
// Computes, of the n values v(0) <= v(1) ... in (start+k*interval-width, start+k*interval],
//   NaN first: v(r)*(1-w) + v(r+1)*w, r + w = quantile*(n-1). Where the answer depends on how zeros of
//   either sign are sorted, which is Go's business, it lowers *fault to kMixedZeros.
// Grid: x tiles of 32 series, four a block of 128 threads; y ranges of steps.
// A thread owns one series at `length` steps. Of stored integers it finds a rank that is at most 16 from the
//   nearer end in registers (ranks.h). From the first window on that has others, or another rank, it keeps a
//   key, that of v(r) of the window before, and how many values are below it, which changes with what comes
//   and leaves. One look at all rows of the window finds the nearest keys on the side where v(r) is now.
//   Where they do not say how many values are equal to v(r), another look counts. The first v(r), or one that
//   is far, is found by halving keys.
// Bytes per sample: reads its value, 2 to 8, once or twice for every window that holds it, from a cache but
//   for the first where windows of 12 warps fit there; times only where they are not regular. Writes 8 a
//   step, and adds to the series' counts.
// Operations per sample and window that holds it, each look: 14 of stored integers, 40 of whole values.
#include "job.h"
#include "ranks.h"
#include "select.h"

// The keys that a window's quantile is made of.
struct Ranked {
  u64 lower, upper;
};

// A value that is this many ranks away, or more, is found by halving keys.
const u32 kFar = 32;

// The keys of ranks p.lower and p.upper of the values from w to `end`; s is for a key of any rank before, and for
// that of p.lower afterwards.
DEVICE Ranked rank(const Columns& c, Walker& w, i64 end, Position p, Standing& s) {
  u64 floor = 0, ceiling = ~0ull;
  for (;;) {
    u32 upto = s.below + s.equal;
    bool down = p.lower < s.below, inside = !down && p.lower < upto;
    if (inside && p.upper < upto) return Ranked{s.key, s.key};
    u32 i = inside ? 0 : down ? s.below - p.lower - 1 : p.lower - upto;
    if (down) {
      ceiling = s.key;
    } else {
      floor = s.key;
    }
    u64 key = floor + (ceiling - floor) / 2;
    key += key == ~0ull >> 1;  // that of -0, which no zero has
    if (i < kFar || key == s.key) {
      Nearest near(s.key, !down);
      each_run(c, w, end, near);
      if (inside) return Ranked{s.key, near.at(0)};
      bool left = i == 0 && down && s.equal == 0;  // the key is none of the window's
      if (follow(near, i, s)) {
        if (p.upper < s.below + s.equal) return Ranked{s.key, s.key};
        if (left) continue;
        return Ranked{s.key, near.at(down ? i - 1 : i + 1)};
      }
      key = near.at(i < kNear ? i : kNear - 1);
    }
    Standing next(key);
    each_run(c, w, end, next);
    next.minus = s.minus;
    s = next;
  }
}

// Whether some of the n values from w on are 0 above zero.
NOINLINE bool plus_zeros(Columns c, Walker w, u32 n) {
  for (u32 i = 0; i < n; i++, next(w, c)) {
    if (as_bits(value_at(w)) == 0) return true;
  }
  return false;
}

KERNEL SELECT_THREADS window_select(WINDOW_PARAMETERS, double quantile, u64* __restrict__ fault) {
  WindowJob job = WINDOW_JOB;
  if (!job.owns(tiles)) return;
  const Columns& c = job.c;
  Walker lo = job.begin(), hi = lo;
  Results to = results_of(job, out, counts);
  Standing s(quantile < 0.5 ? 0 : ~0ull);
  u32 n = 0;  // samples from lo to hi
  bool ranks = true, certain = true;
  for (u32 k = job.mine.from; k < job.mine.to; store_line(to)) {
    u32 line = job.mine.to - k < kLine ? job.mine.to : k + kLine;
    if (ranks) {
      k = by_ranks(job, quantile, k, line, lo, hi, n, to);
      if (k < line) {
        ranks = false;
        hi = lo;
        n = 0;
      }
    }
    for (; k < line; k++) {
      i64 end = job.end(k);
      Standing gone(s.key), come(s.key);
      n -= pass_rows(c, lo, end - width, gone);
      n += pass_rows(c, hi, end, come);
      s.below += come.below - gone.below;
      s.equal += come.equal - gone.equal;
      s.minus += come.minus - gone.minus;
      u64 result = kAbsent;
      if (n > 0) {
        Position p = position_of(quantile, n);
        Ranked of = rank(c, lo, end, p, s);
        double lower = of_key(of.lower), upper = of_key(of.upper);
        if (s.minus > 0 && (lower == 0 || upper == 0)) {
          if (plus_zeros(c, lo, n)) {
            certain = false;
          } else {
            if (lower == 0) lower = -0.0;
            if (upper == 0) upper = -0.0;
          }
        }
        result = as_bits(between(lower, upper, p.weight));
      }
      note(to, result, n);
    }
  }
  finish(to);
  if (!certain) atomic_min(fault, kMixedZeros);
}
