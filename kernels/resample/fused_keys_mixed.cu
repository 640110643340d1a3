// fused_keys_mixed: fused_keys for chunks of which some, or all, are XOR2 chunks.
//
// Computes, grid, a thread owns, bytes, operations: those of fused_keys. One loop makes all parts.
#include "fused.h"

KERNEL FUSED_KEYS_THREADS fused_keys_mixed(FUSED_RUNS_PARAMETERS, const u64* __restrict__ rows, u64* __restrict__ keys,
                          u32* __restrict__ begins) {
  auto job = FUSED_RUNS_JOB;
  KeysOut to{keys, begins, rows, first, buckets};
  fuse_keys<true, kAllParts>(job, to);
}
