// fused_rate_mixed: fused_rate for chunks of which some, or all, are XOR2 chunks.
//
// Computes, grid, a thread owns, bytes, operations: those of fused_rate.
#include "fused_rate.h"

KERNEL FUSED_THREADS fused_rate_mixed(FUSED_PARAMETERS, Flag counter, double seconds) {
  fused_rates<true>(FUSED_JOB, counter, seconds);
}
