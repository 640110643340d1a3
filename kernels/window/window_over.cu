// window_over: sum, avg, min and max over time, where windows share little. Where they share
// much there is window_panes.
//
// Computes: out[k] = sum, mean, min or max of the samples in (start+k*interval-width,
//   start+k*interval], added in their order with Neumaier's compensation.
// Grid: x tiles of 32 series, four a block of 128 threads; y ranges of steps.
// A thread owns one series at `length` steps, and computes four neighbouring windows at once.
// Bytes per sample: reads 16 (time and value) for every four windows that hold it; what
//   windows share is mostly in a cache. Writes 8 a step, and adds to the series' counts.
// Operations per sample and window that holds it: 8 for sums and means, 3 for extremes, and
//   8 to find out whether it does.
#include "abreast.h"
#include "over.h"

KERNEL MAX_THREADS(128) window_over(WINDOW_PARAMETERS, Operator op) {
  WindowJob job = WINDOW_JOB;
  if (!job.owns(tiles)) return;
  Walker lo = job.begin();
  Results to = results_of(job, out, counts);
  Call none{0, 0, 0, 0};
  switch (op) {
    case kSum: abreast(job, none, lo, Over<kSum>{}, to); break;
    case kAvg: abreast(job, none, lo, Over<kAvg>{}, to); break;
    case kMin: abreast(job, none, lo, Over<kMin>{}, to); break;
    default: abreast(job, none, lo, Over<kMax>{}, to);
  }
  finish(to);
}
