// What all window kernels have in common: their parameters, what a thread owns, and how it
// writes what it finds.
#pragma once
#include "../values/step_range.h"
#include "walker.h"

// What every window kernel is given: a batch of series (tiles of them, and of each
// the tiles of chunks), the windows (start+k*interval-width, start+k*interval] of
// so many steps, ms, of which a thread computes `length`, and where results go:
//   out    a value for each place of a tile and step, kAbsent where there is none
//   counts a SeriesCounts a series, to be added to
#define WINDOW_PARAMETERS                                                                                              \
  COLUMNS_PARAMETERS, i64 start, i64 interval, u32 steps, i64 width, \
      u32 length, u64 *__restrict__ out, SeriesCounts *__restrict__ counts

// The job of this thread of a window kernel, made of its parameters.
#define WINDOW_JOB \
  WindowJob { COLUMNS, first, places, start, interval, width, steps, my_steps(steps, length) }

struct WindowJob {
  Columns c;
  const u32* __restrict__ first;
  const u32* __restrict__ places;
  i64 start, interval, width;
  u32 steps;
  StepRange mine;

  // Whether the thread owns anything.
  DEVICE bool owns(u32 tiles) const { return mine.tile < tiles && mine.from < steps; }

  // Where what is made of the series goes, and its value of window k.
  DEVICE u32 place() const { return places[mine.tile * 32 + mine.lane]; }
  DEVICE u64 cell(u32 k) const { return ((u64)(place() / 32) * steps + k) * 32 + place() % 32; }

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

// Where a thread of a window kernel writes what it finds for its steps, in order.
struct Results {
  u64* __restrict__ out;
  SeriesCounts* __restrict__ counts;
  u32 left;  // steps up to the last of all, that one included
  SeriesCounts count;
};

DEVICE Results results_of(const WindowJob& job, u64* out, SeriesCounts* counts) {
  return Results{out + job.cell(job.mine.from), counts + job.place(), job.steps - job.mine.from, SeriesCounts{0, 0, 0}};
}

// Writes the next step: bits of a value. n counts the samples of the window for the sample limit.
DEVICE void emit(Results& r, u64 value, u32 n) {
  store_streaming(r.out, value);
  r.out += 32;
  if (value != kAbsent) r.count.points++;
  if (n > r.count.most) r.count.most = n;
  if (--r.left == 0) r.count.last = n;
}

DEVICE void finish(const Results& r) {
  if (r.count.points) atomic_add(&r.counts->points, r.count.points);
  if (r.count.most) atomic_max(&r.counts->most, r.count.most);
  if (r.count.last) atomic_add(&r.counts->last, r.count.last);
}
