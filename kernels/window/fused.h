// The strategy for windows that share no sample: a policy computes them while the chunks of
// series are decoded, and no sample is stored in between.
#pragma once
#include "../decode/owned.h"
#include "policy.h"

// What a fused kernel is given: chunks, whether stale markers are left out, the windows
// (start+k*interval-width, start+k*interval] of so many steps, ms, where width is at most the
// interval or there is one step, and where results go: see WINDOW_PARAMETERS in job.h.
#define FUSED_PARAMETERS                                                                                     \
  OWNED_PARAMETERS, Flag drop, i64 start, i64 interval, u32 steps, i64 width, u64 *__restrict__ out,         \
      SeriesCounts *__restrict__ counts

// 64 registers a thread, some of which are spilled where a window ends, so that there are
// threads enough to wait for chunks. docs/gpu.md has what other numbers cost.
#define FUSED_THREADS MAX_THREADS_AND_BLOCKS(128, 8)

#define FUSED_JOB \
  FusedJob { OWNED_CHUNKS, drop != 0, Steps{start, interval, width, steps}, out, counts }

// The edges of windows.
struct Steps {
  i64 first, interval, width;
  u32 count;

  DEVICE i64 opens(u32 k) const { return closes(k) - width; }
  DEVICE i64 closes(u32 k) const { return first + (i64)k * interval; }
  DEVICE i64 start(u32 k) const { return opens(k) + 1; }
  DEVICE i64 end(u32 k) const { return closes(k) + 1; }

  DEVICE u32 begun(i64 t) const {
    i64 begin = first - width;
    if (t <= begin) return 0;
    u64 n = ((u64)t - (u64)begin - 1) / (u64)(interval > 0 ? interval : 1) + 1;
    return n < count ? (u32)n : count;
  }
};

struct FusedJob : OwnedChunks {
  bool drop;
  Steps edges;
  u64* __restrict__ out;
  SeriesCounts* __restrict__ counts;

  // This thread's series, in that tile, and its value of window k.
  DEVICE static u32 series(u32 tile) { return tile * 32 + thread_x() % 32; }
  DEVICE u64 cell(u32 tile, u32 k) const { return (u64)series(tile) * edges.count + k; }

  DEVICE SeriesCounts* counts_of(u32 tile) const { return counts + series(tile); }
};

// Windows by the policy F, as fuse has them.
template <class F>
struct Windows {
  const FusedJob& job;
  F& f;
  u32 n;             // samples of the window
  u32 points, most;  // see SeriesCounts

  DEVICE Windows(const FusedJob& job, F& f) : job(job), f(f), n(0), points(0), most(0) {}

  DEVICE u32 samples() const { return n; }
  DEVICE bool failed() const { return f.failed(); }
  DEVICE void enter(u32) {}
  DEVICE void open(u64 cell) { f.begin(Beginning{0, 0, 0, job.out + cell}); }
  DEVICE void add(i64 t, double v, u32) { f.add(n++, t, v); }

  DEVICE void close(u32 tile, u32 k, u64 cell) {
    Found x{kAbsent, 0};
    if (n > 0) x = f.found(n, job.edges.opens(k), job.edges.closes(k));
    store_streaming(job.out + cell, x.value);
    if (x.value != kAbsent) points++;
    if (x.held > most) most = x.held;
    if (k + 1 == job.edges.count) job.counts_of(tile)->last = x.held;
    n = 0;
  }

  DEVICE void finish(u32 tile) const {
    if (points) atomic_add(&job.counts_of(tile)->points, points);
    if (most) atomic_max(&job.counts_of(tile)->most, most);
  }
};

// Computes the windows that begin in this thread's chunk, by the policy F, unless that fails.
template <class F>
DEVICE bool fused(const FusedJob& job, F&& f) {
  return fuse(job, Windows<F>(job, f));
}
