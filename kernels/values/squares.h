// Squares of a window's output, 32 series by 32 steps, transposed in shared memory:
// they are loaded series by series, 256 bytes a step, and gone through step by step.
#pragma once
#include "../abi/series.h"

const u32 kSide = 32;  // series and steps of a square; the size of a block

typedef double (*Turned)[kSide + 1];  // a square in shared memory; the column more keeps its banks apart

// The squares of a batch at the steps of a block.
struct Squares {
  const double* __restrict__ values;
  u32 steps;
  u32 first;   // step of the block
  u32 height;  // steps of the block that there are

  // Loads this thread's column of the square of series `tile`.
  DEVICE void load(u64 tile, double v[kSide]) const {
    const double* __restrict__ at = values + (tile * steps + first) * kSide + thread_x();
    UNROLL for (u32 k = 0; k < kSide; k++) v[k] = at[(k < height ? k : 0) * kSide];
  }
};

DEVICE Squares squares_of(const double* values, u32 steps, u32 block) {
  u32 first = block * kSide;
  return Squares{values, steps, first, steps - first < kSide ? steps - first : kSide};
}

// Hands the values of the series at places from to to, at this thread's step, to
// sink(place, value), kAbsent where there is none, or a whole square's row to sink.square(first place, values)
// if Sink::kWhole.
// Each square is loaded while the one before is gone through.
template <class Sink>
DEVICE void each_in_squares(const Squares& q, u32 from, u32 to, Turned turned, Sink& sink) {
  u32 me = thread_x();
  double v[kSide];
  u32 tile = from / kSide;
  q.load(tile, v);
  while (from < to) {
    barrier();  // all have read what is there
    UNROLL for (u32 k = 0; k < kSide; k++) turned[k][me] = v[k];
    barrier();
    u32 lane = from % kSide;
    u32 lanes = to - from < kSide - lane ? to - from : kSide - lane;
    u32 place = from - lane;
    from += lanes;
    if (from < to) q.load(++tile, v);
    if constexpr (Sink::kWhole) {
      if (lanes == kSide) {
        sink.square(place, turned[me]);
        continue;
      }
    }
    for (u32 end = lane + lanes; lane < end; lane++) sink(place + lane, turned[me][lane]);
  }
}
