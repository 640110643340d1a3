// fused_ends_mixed: fused_ends for chunks of which some, or all, are XOR2 chunks.
//
// Computes, grid, a thread owns, bytes, operations: those of fused_ends.
#include "ends.h"
#include "fused.h"

KERNEL FUSED_THREADS fused_ends_mixed(FUSED_PARAMETERS, Ends kind) {
  fused<true>(FUSED_JOB, WindowEnds{kind, 0, 0, 0, 0});
}
