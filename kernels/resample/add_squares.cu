// add_squares: adds what each run of a batch contributes to its group's squared distances from the mean.
//
// Computes: the squares of state g*buckets+k += the terms that square_terms made of bucket k of each series
//   of group g, in the order of the series.
// Grid: x buckets, blocks of 32; y the groups that have a part in the batch, in strides of the grid.
// A thread owns one group at one bucket. Places and groups are as of merge_runs.
// Bytes per run: reads 8, sixteen neighbours at once, before those sixteen before them are added.
// Operations per run: 1.
#include "state.h"

const u32 kTermsAhead = 16;  // loaded at once

KERNEL MAX_THREADS(32) add_squares(const double* __restrict__ terms, u32 buckets, const u32* __restrict__ groups,
                                   const u32* __restrict__ starts, u32 count, double* __restrict__ group_fields,
                                   u64 group_cells, u32 group_parts) {
  u32 k = block_x() * threads_x() + thread_x();
  if (k >= buckets) return;
  States states{nullptr, group_fields, group_cells, group_parts};
  for (u32 i = block_y(); i < count; i += blocks_y()) {
    u64 cell = (u64)groups[i] * buckets + k;
    u32 from = starts[i], end = starts[i + 1];
    RunState s = states.load_fields(cell, kSquaresPart);
    double ahead[kTermsAhead];
    UNROLL for (u32 j = 0; j < kTermsAhead; j++) ahead[j] = 0;
    for (u32 next = from; next < end + kTermsAhead; next += kTermsAhead) {
      double now[kTermsAhead];
      UNROLL for (u32 j = 0; j < kTermsAhead; j++) {
        now[j] = ahead[j];
        ahead[j] = 0;
        u32 place = next + j;
        if (place < end) ahead[j] = terms[((u64)(place / 32) * buckets + k) * 32 + place % 32];
      }
      // A term is never -0, so that to add 0 changes nothing.
      UNROLL for (u32 j = 0; j < kTermsAhead; j++) s.squares += now[j];
    }
    states.store(cell, s, kSquaresPart);
  }
}
