// fused_runs_mixed: fused_runs for chunks of which some, or all, are XOR2 chunks.
//
// Computes, grid, a thread owns, bytes, operations: those of fused_runs. One loop makes all parts.
#include "fused.h"

KERNEL FUSED_RUNS_THREADS fused_runs_mixed(FUSED_RUNS_PARAMETERS) {
  auto job = FUSED_RUNS_JOB;
  fuse_states<true, kAllParts>(job);
}
