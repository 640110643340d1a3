// group_accumulate: accumulates the values of a batch of series into the aggregates of their
// groups.
//
// Computes: states[g*steps+k] += the values of group g's series at step k, where += is the
//   operator's next step in Prometheus's engine: a compensated sum, a running mean, an
//   extreme, a count, Welford's recurrence. So the bits are that engine's, too, if batches
//   come in their order.
// Grid: x 32 steps, a block of 32 threads by up to 8; y the groups that have a part in the batch, in
//   strides of the grid.
// A thread of the first warp owns one group at one step and adds the values of its series one after the
//   other, in the order of the series; the others load ahead. Those of group groups[i] are rows[starts[i]] to
//   rows[starts[i+1]] of values.
// Bytes per series and step: reads 8. Reads and writes 24 a group and step.
// Operations per series and step: 9 for sums, 3 for extremes, 1 for counts, 8 and a division
//   for the variance.
#include "../values/aggregate.h"
#include "../values/rows.h"

// Adds values to a sum, or to the sum of a mean. Their sum first: that is the only dependency chain. Then
// their rounding errors, which are independent. -0 stands for no value, and for the sum of none: it
// changes nothing. It reports false where the sum is not finite: then they must be added one by one.
DEVICE bool add_sums(State& s, const double* values) {
  double v[kAtOnce], sums[kAtOnce + 1], lost = s.lost;
  u32 n = s.n;
  sums[0] = n > 0 ? s.value : -0.0;
  UNROLL for (u32 i = 0; i < kAtOnce; i++) {
    bool present = as_bits(values[i]) != kAbsent;
    v[i] = present ? values[i] : -0.0;
    n += present;
  }
  UNROLL for (u32 i = 0; i < kAtOnce; i++) sums[i + 1] = sums[i] + v[i];
  UNROLL for (u32 i = 0; i < kAtOnce; i++) lost += lost_by(sums[i], v[i], sums[i + 1]);
  if (s.running || !is_finite(sums[kAtOnce])) return false;
  s.lost = lost;
  s.value = sums[kAtOnce];
  s.n = n;
  return true;
}

template <u32 op>
DEVICE void accumulate(const Column& c, u32 from, u32 to, Loaded loaded, State& s) {
  each_of(c, from, to, loaded, [&](u32 first, const double* v) {
    if (op != kSum && op != kAvg) {
      UNROLL for (u32 i = 0; i < kAtOnce; i++) add_present<op>(s, v[i]);
    } else if (!add_sums(s, v)) {
      NO_UNROLL for (u32 i = first; i < to && i < first + kAtOnce; i++) add_present<op>(s, c.value(i));
    }
  });
}

KERNEL MAX_THREADS(256) group_accumulate(const double* __restrict__ values, u32 steps, const u32* __restrict__ groups,
                                        const u32* __restrict__ starts, const u32* __restrict__ rows, u32 count,
                                        Operator op, State* __restrict__ states) {
  SHARED double loaded[kMostWarps * kAtOnce][32];
  u32 k = block_x() * 32 + thread_x();
  bool mine = k < steps && thread_y() == 0;
  if (k >= steps) k = 0;
  Column c{values + k, rows, steps};
  for (u32 i = block_y(); i < count; i += blocks_y()) {
    u32 from = starts[i], to = starts[i + 1];
    State* state = states + (u64)groups[i] * steps + k;
    State s = *state;
    switch (op) {
      case kSum: accumulate<kSum>(c, from, to, loaded, s); break;
      case kAvg: accumulate<kAvg>(c, from, to, loaded, s); break;
      case kMin: accumulate<kMin>(c, from, to, loaded, s); break;
      case kMax: accumulate<kMax>(c, from, to, loaded, s); break;
      case kStdDev:
      case kStdVar: accumulate<kStdVar>(c, from, to, loaded, s); break;
      default: accumulate<kCount>(c, from, to, loaded, s);
    }
    if (mine) *state = s;
  }
}
