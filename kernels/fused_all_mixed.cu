// fused_all_mixed: fused_all for chunks of which some, or all, are XOR2 chunks. There is
// one loop for all functions: loading many would take long.
#include "over.h"

KERNEL FUSED_THREADS fused_all_mixed(FUSED_PARAMETERS, u32 op) { fused_over_any<true>(FUSED_JOB, op); }
