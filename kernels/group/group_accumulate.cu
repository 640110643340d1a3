// group_accumulate: accumulates the values of a batch of series into the aggregates of their
// groups, of which each has a few series in the batch.
//
// Computes: states[g*steps+k] += the values of group g's series at step k, where += is the
//   operator's next step in Prometheus's engine: a compensated sum, a running mean, an
//   extreme, a count, Welford's recurrence. So the bits are that engine's, too, if batches
//   come in their order.
// Grid: x steps, blocks of 32; y the groups that have a part in the batch, in strides of the
//   grid.
// A thread owns one group at one step and adds the values of its series one after the other,
//   in the order of the series. Those of group groups[i] have places starts[i] to starts[i+1]
//   of the batch, and place p has values[(p/32*steps+k)*32+p%32].
// Bytes per series and step: reads 8, of 32 that come from memory. Reads and writes 24 a group
//   and step.
// Operations per series and step: 10 for sums, 3 for extremes, 1 for counts, 8 and a division
//   for the variance, and 5 to find the value.
#include "../values/aggregate.h"

const u32 kAtOnce = 8;  // values loaded before the first is looked at

template <u32 op>
DEVICE void accumulate_few(const double* __restrict__ values, u32 from, u32 to, u32 steps, u32 k, State& s) {
  for (; from < to; from += kAtOnce) {
    double v[kAtOnce];
    UNROLL for (u32 i = 0; i < kAtOnce; i++) {
      u32 p = from + i;
      v[i] = p < to ? values[((u64)(p / 32) * steps + k) * 32 + p % 32] : as_double(kAbsent);
    }
    UNROLL for (u32 i = 0; i < kAtOnce; i++) add_present<op>(s, v[i]);
  }
}

KERNEL MAX_THREADS(32) group_accumulate(const double* __restrict__ values, u32 steps, const u32* __restrict__ groups,
                                  const u32* __restrict__ starts, u32 count, Operator op, State* __restrict__ states) {
  u32 k = block_x() * threads_x() + thread_x();
  if (k >= steps) return;
  for (u32 i = block_y(); i < count; i += blocks_y()) {
    u32 from = starts[i], to = starts[i + 1];
    State* state = states + (u64)groups[i] * steps + k;
    State s = *state;
    switch (op) {
      case kSum: accumulate_few<kSum>(values, from, to, steps, k, s); break;
      case kAvg: accumulate_few<kAvg>(values, from, to, steps, k, s); break;
      case kMin: accumulate_few<kMin>(values, from, to, steps, k, s); break;
      case kMax: accumulate_few<kMax>(values, from, to, steps, k, s); break;
      case kStdDev:
      case kStdVar: accumulate_few<kStdVar>(values, from, to, steps, k, s); break;
      default: accumulate_few<kCount>(values, from, to, steps, k, s);
    }
    *state = s;
  }
}
