// fused_runs: decode_series and count_uniqs in one, where no two buckets overlap.
//
// Computes: what count_uniqs does. A corrupt chunk is reported as decode_series does. Stale markers are
//   no samples.
// Grid: one thread a chunk, blocks of 128.
// A thread owns a chunk and the buckets that begin in it or in the gap before it. It goes on into the
//   next chunks until the last of them ends.
// Bytes per sample, with chunks of 120 samples in 2 bytes each and buckets of 20: 2.3, where storing
//   columns costs 32 more. Writes a run's state once: 4, and 8 a field.
// Operations per sample: about 100 to decode it, and those of count_uniqs.
#include "fused.h"

KERNEL FUSED_RUNS_THREADS fused_runs(FUSED_RUNS_PARAMETERS) {
  auto job = FUSED_RUNS_JOB;
  if (!(parts & ~kSums)) {
    fuse_states<kSums>(job);
  } else if (!(parts & ~kUsual)) {
    fuse_states<kUsual>(job);
  } else {
    fuse_states<kAllParts>(job);
  }
}
