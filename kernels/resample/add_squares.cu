// add_squares: adds what each run of a batch contributes to its group's squared distances from the mean.
//
// Computes: the squares of state g*buckets+k += the terms that square_terms made of bucket k of each series
//   of group g, in the order of the series.
// Grid: x buckets, spread evenly over blocks of 32 as in merge_runs; y the groups that have a part in
//   the batch, in strides of the grid.
// A thread owns one group at one bucket. Places and groups are as of merge_runs.
// Bytes per run: reads 8, sixteen neighbours at once, before those sixteen before them are added; what
//   the row of 32 places behind has is on its way to the cache.
// Operations per run: 1.
#include "state.h"

const u32 kTermsAhead = 16;  // loaded at once

// The terms of one bucket.
struct TermsAt {
  const double* __restrict__ terms;
  u32 buckets, k;

  DEVICE const double* at(u32 place) const { return terms + ((u64)(place / 32) * buckets + k) * 32 + place % 32; }

  // The terms at `place`, a multiple of their number, and behind it; 0 where another group is. A
  // term is never -0, so that to add 0 changes nothing.
  DEVICE void neighbours(u32 place, u32 from, u32 end, double (&v)[kTermsAhead]) const {
    const double* here = at(place);
    UNROLL for (u32 j = 0; j < kTermsAhead; j += 2) {
      F64x2 two = *(const F64x2*)(here + j);
      v[j] = two[0], v[j + 1] = two[1];
    }
    UNROLL for (u32 j = 0; j < kTermsAhead; j++) {
      if (place + j < from || place + j >= end) v[j] = 0;
    }
    if (place + 32 >= end) return;
    UNROLL for (u32 j = 0; j < kTermsAhead; j += 4) prefetch(at(place + 32) + j);
  }
};

KERNEL MAX_THREADS(32) add_squares(const double* __restrict__ terms, u32 buckets, const u32* __restrict__ groups,
                                   const u32* __restrict__ starts, u32 count, double* __restrict__ group_fields,
                                   u64 group_cells, u32 group_parts) {
  u32 each = (buckets + blocks_x() - 1) / blocks_x();
  u32 k = block_x() * each + thread_x();
  if (thread_x() >= each || k >= buckets) return;
  States states{nullptr, group_fields, group_cells, group_parts};
  TermsAt all{terms, buckets, k};
  for (u32 i = block_y(); i < count; i += blocks_y()) {
    u64 cell = (u64)groups[i] * buckets + k;
    u32 from = starts[i], end = starts[i + 1], begin = from / kTermsAhead * kTermsAhead;
    RunState s = states.load_fields(cell, kSquaresPart);
    double ahead[kTermsAhead];
    if (from < end) all.neighbours(begin, from, end, ahead);
    for (u32 place = begin; place < end; place += kTermsAhead) {
      double now[kTermsAhead];
      UNROLL for (u32 j = 0; j < kTermsAhead; j++) now[j] = ahead[j];
      if (place + kTermsAhead < end) all.neighbours(place + kTermsAhead, from, end, ahead);
      UNROLL for (u32 j = 0; j < kTermsAhead; j++) s.squares += now[j];
    }
    states.store(cell, s, kSquaresPart);
  }
}
