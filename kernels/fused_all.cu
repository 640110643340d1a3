// fused_all: decode_series and window_all in one, where windows share no sample: sum,
// avg, min and max over time.
//
// Grid: one thread a chunk, blocks of 128.
// A thread owns a chunk and the windows that begin in it or in the gap before it. It
// goes on into the next chunks until the last of them ends.
// Reads the chunks' bytes, once and a window's part of a second time, 16 bytes a chunk
// three times, and finds the tile of series by bisection.
// Writes 16 bytes a series and step, and adds to the counts of the series: see
// WINDOW_PARAMETERS. With chunks of 120 samples in 2 bytes each, and windows of 7
// samples: 4.5 bytes of traffic a sample, where storing columns costs 32 more.
// A corrupt chunk is reported as decode_series does.
#include "over.h"

KERNEL FUSED_THREADS fused_all(FUSED_PARAMETERS, u32 op) {
  auto job = FUSED_JOB;
  switch (op) {
    case kSum: fused_over<kSum>(job); break;
    case kMin: fused_over<kMin>(job); break;
    case kMax: fused_over<kMax>(job); break;
    default:
      if (!fused_over<kAvg>(job)) fused_over_any<false>(job, kAvg);
  }
}
