// group_fold: adds the values of a batch of series to the aggregates of their groups.
//
// Grid: x steps, blocks of 64; y the groups that have a part in the batch, in strides
// of the grid.
// A thread owns one group at one step and adds the values of its series one after
// the other, in the order of the series: the additions of Prometheus's engine, and
// so its bits. Batches must come in their order.
// Reads 8 bytes a series and step: values[(p/32*steps+k)*32+p%32] of the series at
// place p of the batch. Those of group groups[i] have places starts[i] to starts[i+1].
// Reads and writes states[groups[i]*steps+k], 24 bytes a group and step.
#include "series.h"
#include "sums.h"

const u32 kAtOnce = 32;  // values loaded before the first is looked at: few threads, each of which waits long

template <u32 op>
DEVICE void fold(const double* __restrict__ values, u64 from, u64 to, u32 steps, u32 k, State& s) {
  while (from < to) {
    const double* __restrict__ row = values + (from / 32 * steps + k) * 32;
    u32 lane = from % 32;
    u32 lanes = to - from < 32 - lane ? to - from : 32 - lane;
    from += lanes;
    for (u32 end = lane + lanes; lane < end; lane += kAtOnce) {
      double v[kAtOnce];
      for (u32 i = 0; i < kAtOnce; i++) v[i] = lane + i < end ? row[lane + i] : as_double(kAbsent);
      for (u32 i = 0; i < kAtOnce; i++) {
        if (as_bits(v[i]) != kAbsent) add_value<op>(s, v[i]);
      }
    }
  }
}

KERNEL MAX_THREADS(64) group_fold(const double* __restrict__ values, u32 steps, const u32* __restrict__ groups,
                                  const u32* __restrict__ starts, u32 count, u32 op, State* __restrict__ states) {
  u32 k = block_x() * threads_x() + thread_x();
  if (k >= steps) return;
  for (u32 i = block_y(); i < count; i += blocks_y()) {
    u64 from = starts[i], to = starts[i + 1];
    State* state = states + (u64)groups[i] * steps + k;
    State s = *state;
    switch (op) {
      case kSum: fold<kSum>(values, from, to, steps, k, s); break;
      case kAvg: fold<kAvg>(values, from, to, steps, k, s); break;
      case kMin: fold<kMin>(values, from, to, steps, k, s); break;
      case kMax: fold<kMax>(values, from, to, steps, k, s); break;
      default: fold<kCount>(values, from, to, steps, k, s);
    }
    *state = s;
  }
}
