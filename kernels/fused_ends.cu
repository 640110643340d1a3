// fused_ends: decode_series and window_ends in one, where windows share no sample: the
// instant selector, the first and the last value, their times, how many samples there
// are.
//
// Grid, reads and writes: those of fused_all.
#include "ends.h"

KERNEL FUSED_THREADS fused_ends(FUSED_PARAMETERS, u32 kind) {
  WindowEnds f{kind, 0, 0, 0, 0};
  fused<false>(FUSED_JOB, f);
}
