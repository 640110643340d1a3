// custom_fused: decode_series and custom_runs in one, where no two buckets overlap.
//
// Computes: what custom_runs does. A corrupt chunk is reported as decode_series does. Stale markers are
//   no samples.
// Grid: one thread a chunk, blocks of 128.
// A thread owns a chunk and the buckets that begin in it or in the gap before it, as fused_runs has
//   it.
// Bytes per sample, with chunks of 120 samples in 2 bytes each and buckets of 20: 2.3. Writes 4 a run,
//   and 8 a field or a result.
// Operations per sample: about 100 to decode it, and those of the program.
#include "../resample/fused.h"
#include "custom_run.h"

KERNEL FUSED_RUNS_THREADS custom_fused(FUSED_RUNS_PARAMETERS, double* __restrict__ found) {
  auto job = FUSED_RUNS_JOB;
  fuse_runs(job, CustomRun(job.edges, CustomStates{n, fields, cells, found}));
}
