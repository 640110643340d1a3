// fused_rate: decode_series and window_rate in one, where windows share no sample:
// rate, increase, delta.
//
// Grid, reads and writes: those of fused_all, thrice where a window has more than two
// resets.
#include "rates.h"

KERNEL FUSED_THREADS fused_rate(FUSED_PARAMETERS, u32 counter, double seconds) {
  fused_rates<false>(FUSED_JOB, counter, seconds);
}
