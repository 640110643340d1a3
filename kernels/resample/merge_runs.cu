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
//   field f at fields[f*cells+(p/32*buckets+k)*32+p%32]. A row of threads loads eight places of 32
//   buckets together, 64 bytes of each, while those before them are merged, and turns them in shared
//   memory.
// Bytes per run: reads 4 in each row, and 8 a field; writes 24 with `before`. Reads and writes a state
//   a group and bucket.
// Operations per run: 10 for sums, 4 for extremes.
#include "before.h"
#include "stage.h"

// Merges runs of a stage into s one by one, where some sum overflows or is not finite.
template <Parts mine>
NOINLINE RunState merge_each(RunState s, Stage stage, bool squares) {
  for (u32 j = 0; j < kRunsAhead; j++) {
    RunState o = stage.run<mine>(j);
    if (o.n == 0) continue;
    if (squares) stage.set_before(j, s);
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
DEVICE void merge_others(RunState& s, const Stage& stage) {
  UNROLL for (u32 j = 0; j < kRunsAhead; j++) {
    RunState o = stage.run<mine>(j);
    if (o.n == 0) continue;
    if (s.n == 0) {
      s = o;
    } else {
      merge(s, o, mine);
    }
  }
}

// Merges sums of runs where none overflows: runs that are not there are told apart by selection, so
// that the sums are the only chain. Reports false, and has changed nothing, where a sum is not
// finite.
DEVICE bool merge_finite(RunState& s, const Stage& stage, bool squares) {
  RunState to = s;
  UNROLL for (u32 j = 0; j < kRunsAhead; j++) {
    RunState o = stage.run<kSumPart>(j);
    if (squares) stage.set_before(j, to);
    double sum = to.sum, lost = to.lost;
    merge_sums(o.sum, o.lost, sum, lost);
    bool there = o.n > 0, begins = to.n == 0;
    to.sum = !there ? to.sum : begins ? o.sum : sum;
    to.lost = !there ? to.lost : begins ? o.lost : lost;
    to.n += o.n;
  }
  if (!is_finite(to.sum)) return false;
  s = to;
  return true;
}

// Merges the runs of places from to end into a group's state. All rows of a block go through it
// together.
template <Parts mine>
DEVICE void merge_places(RunState& s, const RunsAt& runs, u32 from, u32 end, const Stage& stage) {
  Ahead<mine> ahead;
  ahead.load(runs, from, end);
  bool squares = (mine & kSumPart) && runs.before.fields;
  for (u32 next = from; next < end; next += kRunsAhead) {
    ahead.put(stage);
    ahead.load(runs, next + kRunsAhead, end);
    barrier();
    if (!(mine & kSumPart)) {
      merge_others<mine>(s, stage);
    } else if (!merge_finite(s, stage, squares)) {
      s = merge_each<mine>(s, stage, squares);
    }
    barrier();
    if (squares) stage.store_before(runs, next, end);
  }
}

KERNEL MAX_THREADS(128) merge_runs(u32* __restrict__ n, double* __restrict__ fields, u64 cells, u32 parts, u32 buckets,
                                   const u32* __restrict__ groups, const u32* __restrict__ starts, u32 count,
                                   const double* __restrict__ values, u32* __restrict__ group_n,
                                   double* __restrict__ group_fields, u64 group_cells, u32 group_parts,
                                   double* __restrict__ before) {
  SHARED double staged[4][kStagedFields * kStaged];
  SHARED u32 counts[4][kStaged];
  SHARED double befores[3 * kStaged];
  u32 k = block_x() * threads_x() + thread_x();
  bool owns = k < buckets;
  const Parts sets[] = {kSumPart, kExtremesPart, kEndsPart, kWeightedPart};
  Parts mine = sets[thread_y()] & group_parts;
  Stage stage{staged[thread_y()], counts[thread_y()], befores};
  RunsAt runs{States{n, fields, cells, parts}, buckets, block_x() * threads_x(), values, Before{before, cells}};
  States states{group_n, group_fields, group_cells, group_parts};
  bool first = thread_y() == 0;  // counts
  for (u32 i = block_y(); i < count; i += blocks_y()) {
    u64 cell = (u64)groups[i] * buckets + (owns ? k : 0);
    u32 from = starts[i], end = starts[i + 1];
    RunState s = states.load(cell, mine);
    if (s.n == 0) s = RunState{};
    if (s.n == 0 && first && owns && before) states.store(cell, s, kSquaresPart);
    barrier();  // all have read the count
    switch (mine) {
      case kSumPart: merge_places<kSumPart>(s, runs, from, end, stage); break;
      case kExtremesPart: merge_places<kExtremesPart>(s, runs, from, end, stage); break;
      case kEndsPart: merge_places<kEndsPart>(s, runs, from, end, stage); break;
      case kWeightedPart: merge_places<kWeightedPart>(s, runs, from, end, stage); break;
      default: merge_places<0>(s, runs, from, end, stage);
    }
    if (!owns) continue;
    states.store(cell, s, mine);
    if (first) group_n[cell] = s.n;
  }
}
