// fused_ends: decode_series and window_ends in one, where windows share no sample.
//
// Computes: what window_ends does, where width <= interval or there is one step. A corrupt
//   chunk is reported as decode_series does.
// Grid, a thread owns, bytes per sample: those of fused_over.
// Operations per sample: about 100 to decode it, and 3.
#include "ends.h"
#include "fused.h"

KERNEL FUSED_THREADS fused_ends(FUSED_PARAMETERS, Ends kind) {
  fused(FUSED_JOB, WindowEnds{kind, 0, 0, 0, 0});
}
