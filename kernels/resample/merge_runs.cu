// merge_runs: merges the states of a batch's runs into those of their groups.
//
// Computes: states[g*buckets+k] = its merger with the state that each series of group g has of
//   bucket k, in the order of the series; or with `values`, one a run, with the state of that alone.
// Grid: x buckets, blocks of 32 by 4 threads; y the groups that have a part in the batch, in strides
//   of the grid.
// A thread owns some parts of the state of one group at one bucket, by its row in the block: sums and
//   squares, extremes, ends, or areas. It merges the runs of the group's series one after the other.
//   Those of group groups[i] have places starts[i] to starts[i+1] of the batch, and place p has
//   field f at fields[f*cells+(p/32*buckets+k)*32+p%32].
// Bytes per run: reads 4 in each row, and 8 a field, eight neighbours at once, before those eight
//   before them are merged. Reads and writes a state a group and bucket.
// Operations per run: 10 for sums, 4 for extremes, 50 for squares, most of them divisions.
#include "state.h"

const u32 kRunsAhead = 8;  // states loaded at once

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

// The runs of a batch, or the states of one value each.
struct RunsAt {
  States states;
  u32 buckets, k;
  const double* __restrict__ values;  // or null

  // The state at a place.
  template <Parts mine>
  DEVICE RunState at(u32 place) const {
    u64 at = ((u64)(place / 32) * buckets + k) * 32 + place % 32;
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

// Merges sums and squares of runs where no sum overflows: first the sums, which is the only dependency
// chain, then the squares, which are independent but for the last addition. Reports false, and
// has changed nothing, where a sum is not finite.
template <Parts mine>
DEVICE bool merge_finite(RunState& s, const RunState (&o)[kRunsAhead]) {
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
  if (mine & kSquaresPart) {
    double more[kRunsAhead];
    UNROLL for (u32 j = 0; j < kRunsAhead; j++) {
      double a = n[j], b = o[j].n;
      double hi = sums[j] / a, lo = (fused_multiply_add(-hi, a, sums[j]) + lost[j]) / a;
      double o_hi = o[j].sum / b, o_lo = (fused_multiply_add(-o_hi, b, o[j].sum) + o[j].lost) / b;
      double d = (o_hi - hi) + (o_lo - lo);
      more[j] = o[j].squares + (d * d) * (a * b / (a + b));
    }
    UNROLL for (u32 j = 0; j < kRunsAhead; j++) {
      double squares = s.squares + more[j];
      s.squares = o[j].n == 0 ? s.squares : n[j] == 0 ? o[j].squares : squares;
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
    } else if (!merge_finite<mine>(s, o)) {
      u32 upto = next < end ? next : end;
      s = merge_each<mine>(s, runs, next - kRunsAhead, upto);
    }
  }
}

KERNEL MAX_THREADS(128) merge_runs(u32* __restrict__ n, double* __restrict__ fields, u64 cells, u32 parts, u32 buckets,
                                   const u32* __restrict__ groups, const u32* __restrict__ starts, u32 count,
                                   const double* __restrict__ values, u32* __restrict__ group_n,
                                   double* __restrict__ group_fields, u64 group_cells, u32 group_parts) {
  u32 k = block_x() * threads_x() + thread_x();
  bool owns = k < buckets;
  if (!owns) k = 0;
  const Parts sets[] = {kSumPart | kSquaresPart, kExtremesPart, kEndsPart, kWeightedPart};
  Parts mine = sets[thread_y()] & group_parts;
  RunsAt runs{States{n, fields, cells, parts}, buckets, k, values};
  States states{group_n, group_fields, group_cells, group_parts};
  bool first = thread_y() == 0;  // counts
  for (u32 i = block_y(); i < count; i += blocks_y()) {
    u64 cell = (u64)groups[i] * buckets + k;
    u32 from = starts[i], end = starts[i + 1];
    RunState s = states.load(cell, mine);
    if (s.n == 0) s = RunState{};
    barrier();  // all have read the count
    if (!owns) continue;
    switch (mine) {
      case kSumPart | kSquaresPart: merge_places<kSumPart | kSquaresPart>(s, runs, from, end); break;
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
