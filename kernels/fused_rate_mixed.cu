// fused_rate_mixed: fused_rate for chunks of which some, or all, are XOR2 chunks.
#include "rates.h"

KERNEL FUSED_THREADS fused_rate_mixed(FUSED_PARAMETERS, u32 counter, double seconds) {
  fused_rates<true>(FUSED_JOB, counter, seconds);
}
