// count_states: count_uniqs for states of any parts, all of which it makes in one visit.
//
// Computes: what count_uniqs does; and of each run its extremes, first and last sample, squared distances
//   from the mean, and areas, as far as `parts` has them.
// Grid: as of count_uniqs.
// A thread owns one series at `length` neighbouring buckets.
// Bytes per sample: reads what count_uniqs does, and its time for areas. Writes a run's state once: 4, and 8 a
//   field, two to eight buckets at once.
// Operations per sample: those of count_uniqs, 5 for extremes, 4 for squares, and 12 for areas.
#include "stored.h"

KERNEL COUNT_THREADS count_states(RUNS_PARAMETERS, u32 parts, u32* __restrict__ n, double* __restrict__ fields,
                                u32* __restrict__ points) {
  RunsJob job = RUNS_JOB;
  if (!job.owns(tiles)) return;
  auto out = lines_of<kRoom>(job, n, fields, parts);
  if (parts & kWeightedPart) {
    if (job.differences) {
      count_runs<true>(job, points, StoredRun<kAllParts, true>(job, out, parts));
    } else {
      count_runs<false>(job, points, StoredRun<kAllParts, false>(job, out, parts));
    }
  } else if (job.differences) {
    count_runs<true>(job, points, StoredRun<kUsual, true>(job, out, parts));
  } else {
    count_runs<false>(job, points, StoredRun<kUsual, false>(job, out, parts));
  }
}
