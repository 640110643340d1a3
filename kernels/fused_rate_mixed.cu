// fused_rate_mixed: fused_rate for chunks of which some, or all, are XOR2 chunks.
#include "rates.h"

KERNEL MAX_THREADS(128) fused_rate_mixed(FUSED_PARAMETERS, u32 counter, double seconds) {
  Rates f(counter, seconds);
  fused<true>(FUSED_JOB, f);
}
