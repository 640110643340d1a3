// count_keys: count_uniqs and order_keys in one, where no two buckets overlap and samples stand for
// themselves, not for differences.
//
// Computes: what count_uniqs does; the keys of a run's samples, 32 apart from the place of its first sample
//   on: keys[place+32*j]; and the row of that place, begins[s*buckets+k] of series s, counted from the
//   tile's first.
// Grid: as of count_uniqs.
// A thread owns one series at `length` neighbouring buckets.
// Bytes per sample: reads 16, writes 8. Writes a run's state once: 4, 4 and 8 a field.
// Operations per sample: those of count_uniqs, and 6.
#include "keyed.h"
#include "stored.h"

KERNEL COUNT_THREADS count_keys(RUNS_PARAMETERS, u32 parts, u32* __restrict__ n, double* __restrict__ fields,
                                u32* __restrict__ points, u64* __restrict__ keys, u32* __restrict__ begins) {
  RunsJob job = RUNS_JOB;
  if (!job.owns(tiles)) return;
  auto out = lines_of<kRoom>(job, n, fields, parts);
  KeysOut to{keys, begins, rows, first};
  if (!(parts & ~kSums)) {
    count_runs<false>(job, points, Keyed(StoredRun<kSums, false>(job, out, parts), to));
  } else if (!(parts & ~kUsual)) {
    count_runs<false>(job, points, Keyed(StoredRun<kUsual, false>(job, out, parts), to));
  } else {
    count_runs<false>(job, points, Keyed(StoredRun<kAllParts, false>(job, out, parts), to));
  }
}
