// resample_runs, what the experiment did where samples are irregular (count_uniqs): round each
// time, find where the rounded time changes, and let that sample's thread own the run of
// samples up to the next change.
//
// Computes: out[r] = the mean of the values whose rounded time, (time-1)/interval, is r.
// Grid: one thread a sample, blocks of any size.
// A thread owns one sample, and a run if that is its first.
// Bytes per sample: reads 4 of its time, three times, and 4 of its value. Writes 4 a mean.
// Operations per sample: 3.
#include "historic.h"

// The interval that ends at or behind a time, from 1 on, both in s.
DEVICE u32 rounded(u32 time, u32 interval) { return (time - 1) / interval; }

KERNEL resample_runs(const u32* __restrict__ times, const float* __restrict__ values, u32 samples, u32 interval, float* __restrict__ out) {
  u32 id = block_x() * threads_x() + thread_x();
  if (id >= samples) return;
  u32 at = rounded(times[id], interval);
  if (id > 0 && rounded(times[id - 1], interval) == at) return;
  float sum = 0;
  u32 n = 0;
  do {
    sum += values[id + n++];
  } while (id + n < samples && rounded(times[id + n], interval) == at);
  out[at] = sum / (float)n;
}
