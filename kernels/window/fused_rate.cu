// fused_rate: decode_series and window_rate in one, where windows share no sample: rate,
// increase, delta.
//
// Computes: what window_rate does, where width <= interval or there is one step. A corrupt
//   chunk is reported as decode_series does.
// Grid, a thread owns: those of fused_over.
// Bytes per sample: those of fused_over, thrice where a window has more than two resets.
// Operations per sample: about 100 to decode it, and 6; 40 and 3 divisions a window.
#include "fused_rate.h"

KERNEL FUSED_THREADS fused_rate(FUSED_PARAMETERS, Flag counter, double seconds) {
  auto job = FUSED_JOB;
  if (fused(job, Rates{counter, seconds})) return;
  ManyResets g{Rates{counter, seconds}, false, 0};
  while (!fused(job, g)) g.adds = true;
}
