// merge_parts: merges the extremes, ends, and areas of a batch's runs into those of their groups.
//
// Computes: the state of group g at bucket k = its merger with that of each series of group g in bucket k, in
//   the order of the series, as far as group_parts has it. The count of its samples is left to merge_runs.
// Grid: as of merge_runs.
// A thread owns one group at one bucket and a stretch of its series, which it merges one after the other; the
//   first row of threads merges what the stretches come to, in their order. Areas, whose sums are rounded, are one
//   stretch.
// Bytes per run: reads 4, twice with areas, and 8 a field, four series at once. Reads and writes a state a
//   group and bucket.
// Operations per run: 4 for extremes, 4 for ends, 40 for areas.
#include "group_series.h"

// Merges o, which comes later, into s.
template <Parts mine>
DEVICE void merge_if_any(RunState& s, const RunState& o) {
  if (o.n == 0) return;
  if (s.n == 0) {
    s = o;
  } else {
    merge(s, o, mine);
  }
}

template <Parts mine>
DEVICE void merge_series(const MergeJob& job, u32 group, u32 from, u32 end, RunState* stretches) {
  u32 y = thread_y(), many = mine == kWeightedPart ? 1 : threads_y(), each = (end - from + many - 1) / many;
  bool first = y == 0;
  RunState s{};
  if (first && job.groups.n[job.groups.count_at(group, job.k)] > 0) s = job.groups.load(group, job.k, mine);
  from += y * each;
  u32 to = y >= many || from >= end ? from : end - from < each ? end : from + each;
  NO_UNROLL for (u32 i = from; i < to; i += kRows) {
    RunState o[kRows];
    job.load<mine>(i, to, o);
    UNROLL for (u32 j = 0; j < kRows; j++) merge_if_any<mine>(s, o[j]);
  }
  barrier();  // all have read what is there
  stretches[y * threads_x() + thread_x()] = s;
  barrier();
  for (u32 w = 1; first && w < many; w++) merge_if_any<mine>(s, stretches[w * threads_x() + thread_x()]);
  if (first && job.owns) job.groups.store(group, job.k, s, mine);
}

#define PARTS_THREADS MAX_THREADS_AND_BLOCKS(256, 2)

KERNEL PARTS_THREADS merge_parts(MERGE_PARAMETERS) {
  SHARED RunState stretches[kWarps * 32];
  MergeJob job = MERGE_JOB;
  job.begin();
  for (u32 i = block_y(); i < count; i += blocks_y()) {
    u32 from = starts[i], end = starts[i + 1];
    const Parts both = kExtremesPart | kEndsPart;
    switch (group_parts & both) {
      case both: merge_series<both>(job, groups[i], from, end, stretches); break;
      case kExtremesPart: merge_series<kExtremesPart>(job, groups[i], from, end, stretches); break;
      case kEndsPart: merge_series<kEndsPart>(job, groups[i], from, end, stretches); break;
    }
    if (group_parts & kWeightedPart) merge_series<kWeightedPart>(job, groups[i], from, end, stretches);
  }
}
