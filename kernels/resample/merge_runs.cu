// merge_runs: merges the states of a batch's runs into those of their groups.
//
// Computes: states[g*buckets+k] = its merger with the state that each series of group g has of
//   bucket k, in the order of the series; or, with `again`, with the state of that aggregate of it, or of
//   what was found of it already.
// Grid: x buckets, blocks of 32; y the groups that have a part in the batch, in strides of the
//   grid.
// A thread owns one group at one bucket and merges the runs of its series one after the other.
//   Those of group groups[i] have places starts[i] to starts[i+1] of the batch, and place p has
//   field f at fields[f*cells+(p/32*buckets+k)*32+p%32].
// Bytes per run: reads 4, and 8 a field, four neighbours at once. Reads and writes a state a group
//   and bucket.
// Operations per run: 10 for sums, 4 for extremes, 50 for squares, most of them divisions.
#include "state.h"

const u32 kRunsAhead = 4;  // states loaded before the first is looked at

// The state of one value, whose time does not matter.
DEVICE RunState state_of(double v) {
  RunState s{};
  s.n = 1;
  s.sum = 0.0 + v;
  s.lost = is_finite(v) ? 0 : v;
  s.min = s.max = v;
  s.squares = v - v;  // not a number if v is not finite
  return s;
}

KERNEL MAX_THREADS(32) merge_runs(u32* __restrict__ n, double* __restrict__ fields, u64 cells, u32 parts, u32 buckets,
                                  const u32* __restrict__ groups, const u32* __restrict__ starts, u32 count, Flag again,
                                  u32 aggregate, const double* __restrict__ found, u32* __restrict__ group_n, double* __restrict__ group_fields,
                                  u64 group_cells, u32 group_parts) {
  u32 k = block_x() * threads_x() + thread_x();
  if (k >= buckets) return;
  States runs{n, fields, cells, parts}, states{group_n, group_fields, group_cells, group_parts};
  Parts wanted = again ? parts_of(aggregate) : group_parts;
  for (u32 i = block_y(); i < count; i += blocks_y()) {
    u64 cell = (u64)groups[i] * buckets + k;
    RunState s = states.load(cell, group_parts);
    for (u32 p = starts[i]; p < starts[i + 1]; p += kRunsAhead) {
      RunState o[kRunsAhead];
      UNROLL for (u32 j = 0; j < kRunsAhead; j++) {
        o[j].n = 0;
        u32 place = p + j;
        if (place >= starts[i + 1]) continue;
        u64 at = ((u64)(place / 32) * buckets + k) * 32 + place % 32;
        o[j] = runs.load(at, wanted);
        if (again && o[j].n > 0) o[j] = state_of(aggregate == kFound ? found[at] : result_of(aggregate, o[j]));
      }
      UNROLL for (u32 j = 0; j < kRunsAhead; j++) {
        if (o[j].n == 0) continue;
        if (s.n == 0) {
          s = o[j];
        } else {
          merge(s, o[j], group_parts);
        }
      }
    }
    states.store(cell, s);
  }
}
