// What all window kernels have in common: their parameters, what a thread owns, and how it
// writes what it finds.
#pragma once
#include "../values/step_range.h"
#include "walker.h"

// What every window kernel is given: a batch of series (tiles of them, and of each
// the tiles of chunks), the windows (start+k*interval-width, start+k*interval] of
// so many steps, ms, of which a thread computes `length`, and where results go:
//   out    a value for each series and step, kAbsent where there is none
//   counts a SeriesCounts a series, to be added to
// A thread's series is that of its lane; the values of one lie in a row.
#define WINDOW_PARAMETERS                                                                                              \
  COLUMNS_PARAMETERS, i64 start, i64 interval, u32 steps, i64 width, \
      u32 length, u64 *__restrict__ out, SeriesCounts *__restrict__ counts

// The job of this thread of a window kernel, made of its parameters.
#define WINDOW_JOB \
  WindowJob { COLUMNS, first, start, interval, width, steps, my_steps(steps, length) }

struct WindowJob {
  Columns c;
  const u32* __restrict__ first;
  i64 start, interval, width;
  u32 steps;
  StepRange mine;

  // Whether the thread owns anything. All lanes of its warp do, or none.
  DEVICE bool owns(u32 tiles) const { return mine.tile < tiles && mine.from < steps; }

  // The thread's series, and its value of window k.
  DEVICE u32 series() const { return mine.tile * 32 + mine.lane; }
  DEVICE u64 cell(u32 k) const { return (u64)series() * steps + k; }

  // The end of window k, which is in it.
  DEVICE i64 end(u32 k) const { return start + (i64)k * interval; }

  // The first sample behind time t.
  DEVICE Walker behind(i64 t) const {
    Walker w{};
    seek(w, c, mine.lane, first[mine.tile], first[mine.tile + 1], t);
    return w;
  }

  // The first sample of the thread's first window.
  DEVICE Walker begin() const { return behind(end(mine.from) - width); }

  // Whether the first window holds so many intervals that a leap to its end is worth it.
  DEVICE bool leaps() const { return mine.from > 0 && width / 16 > interval; }
};

// The first sample behind time t, where that is asked for in several places.
NOINLINE Walker behind(WindowJob job, i64 t) { return job.behind(t); }

// The steps of 32 series that are stored at once, 128 bytes a series; mirrors abi.WindowLine. Until then they wait in shared
// memory, 32 rows whose banks are apart.
const u32 kLine = 16;

// The shared memory of a block, a row of `line` steps a thread.
template <u32 threads, u32 line>
DEVICE u64* lines() {
  SHARED u64 all[threads * (line + 1)];
  return all;
}

// Where a thread of a window kernel writes what it finds for its steps, in order.
template <u32 threads, u32 line = kLine>
struct ResultsOf {
  u64* __restrict__ out;  // its warp's first series at the next step to be stored
  SeriesCounts* __restrict__ counts;
  u32 waiting;  // steps
  u32 left;     // steps up to the last of all, that one included
  u32 steps;    // of a row
  SeriesCounts count;

  // The step that waits after `more` others.
  DEVICE u64& next(u32 more = 0) { return lines<threads, line>()[thread_x() * (line + 1) + waiting + more]; }
};
using Results = ResultsOf<128>;

template <u32 threads = 128, u32 line = kLine>
DEVICE ResultsOf<threads, line> results_of(const WindowJob& job, u64* out, SeriesCounts* counts) {
  u64* first = out + (u64)job.mine.tile * 32 * job.steps + job.mine.from;
  return {first, counts + job.series(), 0, job.steps - job.mine.from, job.steps, SeriesCounts{0, 0, 0}};
}

// Stores steps of the series of a warp, all of whose lanes take part.
template <u32 threads, u32 line>
NOINLINE void store_lines(u64* out, u32 steps, u32 waiting) {
  warp_barrier();
  u32 lane = thread_x() % 32, k = lane % line;
  const u64* from = lines<threads, line>() + (thread_x() - lane) * (line + 1) + k;
  if (k < waiting) {
    u32 first = lane / line;
    NO_UNROLL for (u32 series = first; series < 32; series += 8) {
      UNROLL for (u32 i = 0; i < 8; i += 32 / line) {
        store_streaming(out + (u64)(series + i) * steps + k, from[(series + i) * (line + 1)]);
      }
    }
  }
  warp_barrier();
}

// Stores what waits.
template <u32 threads, u32 line>
DEVICE void store_line(ResultsOf<threads, line>& r) {
  store_lines<threads, line>(r.out, r.steps, r.waiting);
  r.out += r.waiting;
  r.waiting = 0;
}

// Counts m steps with a value, each of n samples, that wait.
DEVICE void count(Results& r, u32 m, u32 n) {
  r.waiting += m;
  r.count.points += m;
  if (n > r.count.most) r.count.most = n;
  r.left -= m;
  if (r.left == 0) r.count.last = n;
}

// Notes the next step: bits of a value. n counts the samples of the window for the sample limit.
template <u32 threads, u32 line>
DEVICE void note(ResultsOf<threads, line>& r, u64 value, u32 n) {
  r.next() = value;
  r.waiting++;
  if (value != kAbsent) r.count.points++;
  if (n > r.count.most) r.count.most = n;
  if (--r.left == 0) r.count.last = n;
}

// Writes the next step. All lanes of the warp write theirs.
template <u32 threads, u32 line>
DEVICE void emit(ResultsOf<threads, line>& r, u64 value, u32 n) {
  note(r, value, n);
  if (r.waiting == line) store_line(r);
}

template <u32 threads, u32 line>
DEVICE void finish(ResultsOf<threads, line>& r) {
  store_line(r);
  if (r.count.points) atomic_add(&r.counts->points, r.count.points);
  if (r.count.most) atomic_max(&r.counts->most, r.count.most);
  if (r.count.last) atomic_add(&r.counts->last, r.count.last);
}
