// fused_ends_mixed: fused_ends for chunks of which some, or all, are XOR2 chunks.
#include "ends.h"

KERNEL FUSED_THREADS fused_ends_mixed(FUSED_PARAMETERS, u32 kind) {
  WindowEnds f{kind, 0, 0, 0, 0};
  fused<true>(FUSED_JOB, f);
}
