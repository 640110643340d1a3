// fused_over_mixed: fused_over for chunks of which some, or all, are XOR2 chunks.
//
// Computes, grid, a thread owns, bytes, operations: those of fused_over. One loop does all
//   functions.
#include "fused.h"
#include "over.h"

KERNEL FUSED_THREADS fused_over_mixed(FUSED_PARAMETERS, Operator op) {
  fused<true>(FUSED_JOB, AnyOver{op, State{0, 0, 0, 0}});
}
