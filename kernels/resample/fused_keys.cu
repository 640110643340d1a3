// fused_keys: decode_series and count_keys in one, where no two buckets overlap and none is longer than
// chunks.
//
// Computes: what count_keys does. A corrupt chunk is reported as decode_series does. Stale markers are no
//   samples.
// Grid: one thread a chunk, blocks of 128.
// A thread owns a chunk and the buckets that begin in it or in the gap before it, as fused_runs has it.
// Bytes per sample, with chunks of 120 samples in 2 bytes each and buckets of 20: 10.3. Writes a run's
//   state once: 4, 4 and 8 a field.
// Operations per sample: about 100 to decode it, and those of count_keys.
#include "fused.h"

KERNEL FUSED_KEYS_THREADS fused_keys(FUSED_RUNS_PARAMETERS, const u64* __restrict__ rows, u64* __restrict__ keys,
                          u32* __restrict__ begins) {
  auto job = FUSED_RUNS_JOB;
  KeysOut to{keys, begins, rows, first, buckets};
  if (!(parts & ~kSums)) {
    fuse_keys<kSums>(job, to);
  } else if (!(parts & ~kUsual)) {
    fuse_keys<kUsual>(job, to);
  } else {
    fuse_keys<kAllParts>(job, to);
  }
}
