// merge_runs: merges the states of a batch's runs into those of their groups.
//
// Computes: states[g*buckets+k] = its merger with the state that each series of group g has of
//   bucket k, in the order of the series; or with `values`, one a run, with the state of that alone.
//   Squared distances from the mean are left to square_terms and add_squares: with `before`, the
//   count and the sum that each run was merged into go there, and squares of groups without samples
//   become 0.
// Grid: x buckets, spread evenly over blocks of 32 by 4 threads, of which those of a row beyond its
//   buckets idle: a warp's loads take as long as it has buckets, so that few groups are spread thin;
//   y the groups that have a part in the batch, in strides of the grid.
// A thread owns some parts of the state of one group at one bucket, by its row in the block: sums,
//   extremes, ends, or areas. It merges the runs of the group's series one after the other.
//   Those of group groups[i] have places starts[i] to starts[i+1] of the batch, and place p has
//   field f at fields[f*cells+(p/32*buckets+k)*32+p%32].
// Bytes per run: reads 4 in each row, and 8 a field, eight neighbours at once, before those eight
//   before them are merged; what the row of 32 places behind has is on its way to the cache.
//   Reads and writes a state a group and bucket. Writes 24 a run with `before`.
// Operations per run: 10 for sums, 4 for extremes.
#include "before.h"

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

  // The states at `place`, a multiple of their number, and behind it; none where another group is.
  template <Parts mine>
  DEVICE void neighbours(u32 place, u32 from, u32 end, RunState (&o)[kNeighbours]) const {
    u64 at = cell(place);
    if (values) {
      UNROLL for (u32 j = 0; j < kNeighbours; j++) {
        u32 there = states.n[at + j];
        o[j] = state_of(values[at + j]);
        if (there == 0) o[j].n = 0;
      }
    } else {
      states.load_neighbours<mine>(at, o);
    }
    UNROLL for (u32 j = 0; j < kNeighbours; j++) {
      if (place + j < from || place + j >= end) o[j].n = 0;
    }
    if (!values && place + 32 < end) states.prefetch_neighbours(cell(place + 32), mine);
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
      if (!is_finite(s.sum)) s.set_sum(s.lost, s.n);  // only the sum of a run is Prometheus's
    } else {
      merge(s, o, mine);
    }
  }
  return s;
}

// Merges runs of which no sum counts.
template <Parts mine>
DEVICE void merge_others(RunState& s, const RunState (&o)[kNeighbours]) {
  UNROLL for (u32 j = 0; j < kNeighbours; j++) {
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
// finite. Leaves what there was before each run at place `at` and behind; `all` says that these
// places are all of this group.
DEVICE bool merge_finite(RunState& s, const RunState (&o)[kNeighbours], const Before& before, u64 at, bool all) {
  double sums[kNeighbours + 1], lost[kNeighbours + 1];
  u32 n[kNeighbours + 1];
  sums[0] = s.sum;
  lost[0] = s.lost;
  n[0] = s.n;
  UNROLL for (u32 j = 0; j < kNeighbours; j++) {
    double sum = sums[j], rest = lost[j];
    merge_sums(o[j].sum, o[j].lost, sum, rest);
    bool there = o[j].n > 0, begins = n[j] == 0;
    sums[j + 1] = !there ? sums[j] : begins ? o[j].sum : sum;
    lost[j + 1] = !there ? lost[j] : begins ? o[j].lost : rest;
    n[j + 1] = n[j] + o[j].n;
  }
  if (!is_finite(sums[kNeighbours])) return false;
  if (before.fields && all) {
    before.store_neighbours(at, n, sums, lost);
  } else if (before.fields) {
    UNROLL for (u32 j = 0; j < kNeighbours; j++) {
      if (o[j].n > 0) before.store(at + j, n[j], sums[j], lost[j]);
    }
  }
  s.sum = sums[kNeighbours];
  s.lost = lost[kNeighbours];
  s.n = n[kNeighbours];
  return true;
}

// Merges the runs of places from to end into the state of their group, `had` samples. Some are
// loaded while those before them are merged. Returns the samples that there are.
template <Parts mine>
DEVICE u32 merge_places(const RunsAt& runs, u32 from, u32 end, const States& states, u64 cell, u32 had) {
  RunState s{};
  if (had > 0) s = states.load_fields(cell, mine);
  s.n = had;
  RunState ahead[kNeighbours];
  u32 begin = from / kNeighbours * kNeighbours;
  if (from < end) runs.neighbours<mine>(begin, from, end, ahead);
  for (u32 place = begin; place < end; place += kNeighbours) {
    RunState o[kNeighbours];
    UNROLL for (u32 j = 0; j < kNeighbours; j++) o[j] = ahead[j];
    if (place + kNeighbours < end) runs.neighbours<mine>(place + kNeighbours, from, end, ahead);
    if (!(mine & kSumPart)) {
      merge_others<mine>(s, o);
      continue;
    }
    u32 behind = place + kNeighbours;
    bool all = place >= from && behind <= end;
    if (merge_finite(s, o, runs.before, runs.cell(place), all)) continue;
    s = merge_each<mine>(s, runs, place < from ? from : place, behind < end ? behind : end);
  }
  states.store(cell, s, mine);
  return s.n;
}

KERNEL MAX_THREADS(128) merge_runs(u32* __restrict__ n, double* __restrict__ fields, u64 cells, u32 parts, u32 buckets,
                                   const u32* __restrict__ groups, const u32* __restrict__ starts, u32 count,
                                   const double* __restrict__ values, u32* __restrict__ group_n,
                                   double* __restrict__ group_fields, u64 group_cells, u32 group_parts,
                                   double* __restrict__ before) {
  u32 each = (buckets + blocks_x() - 1) / blocks_x();
  u32 k = block_x() * each + thread_x();
  bool owns = thread_x() < each && k < buckets;
  if (!owns) k = 0;
  const Parts sets[] = {kSumPart, kExtremesPart, kEndsPart, kWeightedPart};
  Parts mine = sets[thread_y()] & group_parts;
  RunsAt runs{States{n, fields, cells, parts}, buckets, k, values, Before{before, cells}};
  States states{group_n, group_fields, group_cells, group_parts};
  bool first = thread_y() == 0;  // counts
  for (u32 i = block_y(); i < count; i += blocks_y()) {
    u64 cell = (u64)groups[i] * buckets + k;
    u32 from = starts[i], end = starts[i + 1];
    u32 had = group_n[cell];
    if (had == 0 && first && owns && before) states.store(cell, RunState{}, kSquaresPart);
    barrier();  // all have read the count
    if (!owns) continue;
    switch (mine) {
      case kSumPart: had = merge_places<kSumPart>(runs, from, end, states, cell, had); break;
      case kExtremesPart: had = merge_places<kExtremesPart>(runs, from, end, states, cell, had); break;
      case kEndsPart: had = merge_places<kEndsPart>(runs, from, end, states, cell, had); break;
      case kWeightedPart: had = merge_places<kWeightedPart>(runs, from, end, states, cell, had); break;
      default:
        if (first) had = merge_places<0>(runs, from, end, states, cell, had);
    }
    if (first) group_n[cell] = had;
  }
}
