// custom_fused_mixed: custom_fused for chunks of which some, or all, are XOR2 chunks.
//
// Computes, grid, a thread owns, bytes, operations: those of custom_fused.
#include "../resample/fused.h"
#include "custom_run.h"

KERNEL FUSED_RUNS_THREADS custom_fused_mixed(FUSED_RUNS_PARAMETERS, double* __restrict__ found) {
  auto job = FUSED_RUNS_JOB;
  fuse_runs<true>(job, CustomRun(job.buckets, CustomStates{n, fields, cells, found}));
}
