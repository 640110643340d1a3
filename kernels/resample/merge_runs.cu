// merge_runs: merges the states of a batch's runs into those of their groups.
//
// Computes: states[g*buckets+k] = its merger with the state that each series of group g has of
//   bucket k, in the order of the series; or with `values`, one a run, with the state of that alone.
//   Squared distances from the mean are left to square_terms and add_squares: with `before`, the
//   count and the sum that each run was merged into go there, and squares of groups without samples
//   become 0.
// Grid: x buckets, blocks of 32 by 4 threads; y the groups that have a part in the batch, in strides
//   of the grid.
// A thread owns some parts of the state of one group at one bucket, by its row in the block: sums,
//   extremes, ends, or areas. It merges the runs of the group's series one after the other.
//   Those of group groups[i] have places starts[i] to starts[i+1] of the batch, and place p has
//   field f at fields[f*cells+(p/32*buckets+k)*32+p%32].
// Bytes per run: reads 4 in each row, and 8 a field, eight neighbours at once, before those eight
//   before them are merged. Reads and writes a state a group and bucket.
//   Writes 24 a run with `before`.
// Operations per run: 10 for sums, 4 for extremes.
#include "before.h"

const u32 kRunsAhead = 8;  // states loaded at once

// The runs of a batch, or the states of one value each.
struct RunsAt {
  States states;
  u32 buckets, k;
  const double* __restrict__ values;  // or null
  Before before;

  DEVICE u64 cell(u32 place) const { return ((u64)(place / 32) * buckets + k) * 32 + place % 32; }

  // The state at a place.
  template <Parts mine>
  DEVICE RunState at(u32 place) const {
    u64 at = cell(place);
    if (!values) return states.load(at, mine);
    return states.n[at] > 0 ? state_of(values[at]) : RunState{};
  }
};

// Merges the runs of places from to end into s one by one.
template <Parts mine>
NOINLINE RunState merge_each(RunState s, RunsAt runs, u32 from, u32 end) {
  for (; from < end; from++) {
    RunState o = runs.at<mine>(from);
    if (o.n == 0) continue;
    if ((mine & kSumPart) && runs.before.fields) runs.before.store(runs.cell(from), s.n, s.sum, s.lost);
    if (s.n == 0) {
      s = o;
    } else {
      merge(s, o, mine);
    }
  }
  return s;
}

// Merges runs of which no sum counts.
template <Parts mine>
DEVICE void merge_others(RunState& s, const RunState (&o)[kRunsAhead]) {
  UNROLL for (u32 j = 0; j < kRunsAhead; j++) {
    if (o[j].n == 0) continue;
    if (s.n == 0) {
      s = o[j];
    } else {
      merge(s, o[j], mine);
    }
  }
}

// Merges sums of runs where none overflows: runs that are not there are told apart by selection, so
// that the sums are the only chain. Reports false, and has changed nothing, where a sum is not
// finite.
DEVICE bool merge_finite(RunState& s, const RunState (&o)[kRunsAhead], const Before& before, const u64 (&at)[kRunsAhead]) {
  double sums[kRunsAhead + 1], lost[kRunsAhead + 1];
  u32 n[kRunsAhead + 1];
  sums[0] = s.sum;
  lost[0] = s.lost;
  n[0] = s.n;
  UNROLL for (u32 j = 0; j < kRunsAhead; j++) {
    double sum = sums[j], rest = lost[j];
    merge_sums(o[j].sum, o[j].lost, sum, rest);
    bool there = o[j].n > 0, begins = n[j] == 0;
    sums[j + 1] = !there ? sums[j] : begins ? o[j].sum : sum;
    lost[j + 1] = !there ? lost[j] : begins ? o[j].lost : rest;
    n[j + 1] = n[j] + o[j].n;
  }
  if (!is_finite(sums[kRunsAhead])) return false;
  if (before.fields) {
    UNROLL for (u32 j = 0; j < kRunsAhead; j++) {
      if (o[j].n > 0) before.store(at[j], n[j], sums[j], lost[j]);
    }
  }
  s.sum = sums[kRunsAhead];
  s.lost = lost[kRunsAhead];
  s.n = n[kRunsAhead];
  return true;
}

// Merges the runs of places from to end into a group's state. Some are loaded while those before
// them are merged.
template <Parts mine>
DEVICE void merge_places(RunState& s, const RunsAt& runs, u32 from, u32 end) {
  RunState ahead[kRunsAhead];
  UNROLL for (u32 j = 0; j < kRunsAhead; j++) ahead[j] = RunState{};
  for (u32 next = from; next < end + kRunsAhead; next += kRunsAhead) {
    RunState o[kRunsAhead];
    UNROLL for (u32 j = 0; j < kRunsAhead; j++) {
      o[j] = ahead[j];
      ahead[j] = RunState{};
      if (next + j < end) ahead[j] = runs.at<mine>(next + j);
    }
    if (next == from) continue;
    if (!(mine & kSumPart)) {
      merge_others<mine>(s, o);
      continue;
    }
    u64 at[kRunsAhead];
    u32 here = next - kRunsAhead;
    UNROLL for (u32 j = 0; j < kRunsAhead; j++) at[j] = runs.cell(here + j);
    if (!merge_finite(s, o, runs.before, at)) s = merge_each<mine>(s, runs, here, next < end ? next : end);
  }
}

KERNEL MAX_THREADS(128) merge_runs(u32* __restrict__ n, double* __restrict__ fields, u64 cells, u32 parts, u32 buckets,
                                   const u32* __restrict__ groups, const u32* __restrict__ starts, u32 count,
                                   const double* __restrict__ values, u32* __restrict__ group_n,
                                   double* __restrict__ group_fields, u64 group_cells, u32 group_parts,
                                   double* __restrict__ before) {
  u32 k = block_x() * threads_x() + thread_x();
  bool owns = k < buckets;
  if (!owns) k = 0;
  const Parts sets[] = {kSumPart, kExtremesPart, kEndsPart, kWeightedPart};
  Parts mine = sets[thread_y()] & group_parts;
  RunsAt runs{States{n, fields, cells, parts}, buckets, k, values, Before{before, cells}};
  States states{group_n, group_fields, group_cells, group_parts};
  bool first = thread_y() == 0;  // counts
  for (u32 i = block_y(); i < count; i += blocks_y()) {
    u64 cell = (u64)groups[i] * buckets + k;
    u32 from = starts[i], end = starts[i + 1];
    RunState s = states.load(cell, mine);
    if (s.n == 0) s = RunState{};
    if (s.n == 0 && first && owns && before) states.store(cell, s, kSquaresPart);
    barrier();  // all have read the count
    if (!owns) continue;
    switch (mine) {
      case kSumPart: merge_places<kSumPart>(s, runs, from, end); break;
      case kExtremesPart: merge_places<kExtremesPart>(s, runs, from, end); break;
      case kEndsPart: merge_places<kEndsPart>(s, runs, from, end); break;
      case kWeightedPart: merge_places<kWeightedPart>(s, runs, from, end); break;
      default:
        if (first) merge_places<0>(s, runs, from, end);
    }
    states.store(cell, s, mine);
    if (first) group_n[cell] = s.n;
  }
}
