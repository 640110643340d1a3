// fused_over: decode_series and window_over in one, where windows share no sample.
//
// Computes: out[k] = sum, mean, min or max of the samples in (start+k*interval-width,
//   start+k*interval], where width <= interval or there is one step. A corrupt chunk is
//   reported as decode_series does.
// Grid: one thread a chunk, blocks of 128.
// A thread owns a chunk and the windows that begin in it or in the gap before it. It goes on
//   into the next chunks until the last of them ends.
// Bytes per sample, with chunks of 120 samples in 2 bytes each and windows of 7: 4.5, where
//   storing columns costs 32 more. Reads the chunks' bytes once, and a window's part of a
//   second time, 16 bytes a chunk three times, and finds the tile of series by bisection.
//   Writes 8 a series and step, and adds to the series' counts.
// Operations per sample: about 100 to decode it, 8 for sums and means, 3 for extremes.
#include "fused.h"
#include "over.h"

KERNEL FUSED_THREADS fused_over(FUSED_PARAMETERS, Operator op) {
  auto job = FUSED_JOB;
  switch (op) {
    case kSum: fused(job, Over<kSum>{}); break;
    case kMin: fused(job, Over<kMin>{}); break;
    case kMax: fused(job, Over<kMax>{}); break;
    default:
      if (!fused(job, FiniteMean{0, 0, false})) fused(job, AnyOver{kAvg, State{0, 0, 0, 0}});
  }
}
