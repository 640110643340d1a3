// Runs of some places at 32 buckets, on their way from device memory, where neighbouring places lie
// together, to the threads that own a bucket each.
#pragma once
#include "before.h"

const u32 kRunsAhead = 8;                  // places that are loaded at once
const u32 kStagedRow = kRunsAhead + 1;     // of a bucket in shared memory: no two threads want one bank
const u32 kStaged = 32 * kStagedRow;
const u32 kStagedFields = 4;

// The fields of states of one part.
template <Parts mine>
struct FieldsOf {
  static const u32 count = mine == kEndsPart ? 4 : mine == kWeightedPart ? 3 : mine != 0 ? 2 : 0;
};

// The runs of a batch, or the states of one value each.
struct RunsAt {
  States states;
  u32 buckets, k;                     // k is the first of 32 buckets
  const double* __restrict__ values;  // or null
  Before before;
};

// A thread's share of loading and storing: element j*32+thread of eight places by 32 buckets.
struct Share {
  u32 bucket, place;
  DEVICE explicit Share(u32 j) : bucket((j * 32 + thread_x()) / kRunsAhead), place(thread_x() % kRunsAhead) {}
  DEVICE u32 staged() const { return bucket * kStagedRow + place; }
  // Whether it is of a run, of those of places from `next` to end, and where that is.
  DEVICE bool there(const RunsAt& runs, u32 next, u32 end) const {
    return next + place < end && runs.k + bucket < runs.buckets;
  }
  DEVICE u64 cell(const RunsAt& runs, u32 next) const {
    u32 at = next + place;
    return ((u64)(at / 32) * runs.buckets + runs.k + bucket) * 32 + at % 32;
  }
};

// What a row of threads has in shared memory; a thread reads what is of its bucket.
struct Stage {
  double* fields;
  u32* n;
  double* before;

  // The run at place j.
  template <Parts mine>
  DEVICE RunState run(u32 j) const {
    u32 at = thread_x() * kStagedRow + j;
    RunState s{};
    s.n = n[at];
    const double* f = fields + at;
    if (mine == kSumPart) s.sum = f[0], s.lost = f[kStaged];
    if (mine == kExtremesPart) s.min = f[0], s.max = f[kStaged];
    if (mine == kEndsPart) {
      s.first = f[0], s.last = f[kStaged];
      s.first_at = as_bits(f[2 * kStaged]), s.last_at = as_bits(f[3 * kStaged]);
    }
    if (mine == kWeightedPart) s.area = f[0], s.area_lost = f[kStaged], s.span = f[2 * kStaged];
    return s;
  }

  // The count and the sum that the run at place j is merged into.
  DEVICE void set_before(u32 j, const RunState& s) const {
    double* f = before + thread_x() * kStagedRow + j;
    f[0] = s.sum;
    f[kStaged] = s.lost;
    f[2 * kStaged] = s.n;
  }

  // Stores those of all runs.
  DEVICE void store_before(const RunsAt& runs, u32 next, u32 end) const {
    UNROLL for (u32 j = 0; j < kRunsAhead; j++) {
      Share e(j);
      if (!e.there(runs, next, end)) continue;
      u64 cell = e.cell(runs, next);
      UNROLL for (u32 f = 0; f < 3; f++) runs.before.fields[f * runs.before.cells + cell] = before[f * kStaged + e.staged()];
    }
  }
};

// A thread's share of what is loaded while what is staged is merged.
template <Parts mine>
struct Ahead {
  u32 n[kRunsAhead];
  double fields[FieldsOf<mine>::count > 0 ? FieldsOf<mine>::count : 1][kRunsAhead];

  // Loads the runs of places from `next` on, of those before end.
  DEVICE void load(const RunsAt& runs, u32 next, u32 end) {
    const u32 second = FieldsOf<mine>::count > 1;  // if there is one
    u32 first = runs.states.first_field(mine);
    UNROLL for (u32 j = 0; j < kRunsAhead; j++) {
      Share e(j);
      n[j] = 0;
      UNROLL for (u32 f = 0; f < FieldsOf<mine>::count; f++) fields[f][j] = 0;
      if (!e.there(runs, next, end)) continue;
      u64 cell = e.cell(runs, next);
      n[j] = runs.states.n[cell];
      if (runs.values) {
        if (n[j] > 0) n[j] = 1;
        RunState s = state_of(runs.values[cell]);
        if (mine == kSumPart) fields[0][j] = s.sum, fields[second][j] = s.lost;
        if (mine == kExtremesPart) fields[0][j] = s.min, fields[second][j] = s.max;
        continue;
      }
      UNROLL for (u32 f = 0; f < FieldsOf<mine>::count; f++) fields[f][j] = runs.states.fields[(first + f) * runs.states.cells + cell];
    }
  }

  DEVICE void put(const Stage& stage) const {
    UNROLL for (u32 j = 0; j < kRunsAhead; j++) {
      u32 at = Share(j).staged();
      stage.n[at] = n[j];
      UNROLL for (u32 f = 0; f < FieldsOf<mine>::count; f++) stage.fields[f * kStaged + at] = fields[f][j];
    }
  }
};
