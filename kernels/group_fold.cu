// group_fold: adds the values of a batch of series to the aggregates of their groups,
// of which each has a few.
//
// Grid: x steps, blocks of 32; y the groups that have a part in the batch, in strides
// of the grid.
// A thread owns one group at one step and adds the values of its series one after
// the other, in the order of the series: the additions of Prometheus's engine, and
// so its bits. Batches must come in their order.
// Reads 8 bytes a series and step, of 32 that come from memory:
// values[(p/32*steps+k)*32+p%32] of the series at place p of the batch. Those of
// group groups[i] have places starts[i] to starts[i+1].
// Reads and writes states[groups[i]*steps+k], 24 bytes a group and step.
#include "series.h"
#include "sums.h"

const u32 kAtOnce = 8;  // values loaded before the first is looked at

template <u32 op>
DEVICE void fold_few(const double* __restrict__ values, u32 from, u32 to, u32 steps, u32 k, State& s) {
  for (; from < to; from += kAtOnce) {
    double v[kAtOnce];
    UNROLL for (u32 i = 0; i < kAtOnce; i++) {
      u32 p = from + i;
      v[i] = p < to ? values[((u64)(p / 32) * steps + k) * 32 + p % 32] : as_double(kAbsent);
    }
    UNROLL for (u32 i = 0; i < kAtOnce; i++) add_present<op>(s, v[i]);
  }
}

KERNEL MAX_THREADS(32) group_fold(const double* __restrict__ values, u32 steps, const u32* __restrict__ groups,
                                  const u32* __restrict__ starts, u32 count, u32 op, State* __restrict__ states) {
  u32 k = block_x() * threads_x() + thread_x();
  if (k >= steps) return;
  for (u32 i = block_y(); i < count; i += blocks_y()) {
    u32 from = starts[i], to = starts[i + 1];
    State* state = states + (u64)groups[i] * steps + k;
    State s = *state;
    switch (op) {
      case kSum: fold_few<kSum>(values, from, to, steps, k, s); break;
      case kAvg: fold_few<kAvg>(values, from, to, steps, k, s); break;
      case kMin: fold_few<kMin>(values, from, to, steps, k, s); break;
      case kMax: fold_few<kMax>(values, from, to, steps, k, s); break;
      case kStdDev:
      case kStdVar: fold_few<kStdVar>(values, from, to, steps, k, s); break;
      default: fold_few<kCount>(values, from, to, steps, k, s);
    }
    *state = s;
  }
}
