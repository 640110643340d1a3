// group_accumulate: accumulates the values of a batch of series into the aggregates of their
// groups.
//
// Computes: states[g*steps+k] += the values of group g's series at step k, where += is the
//   operator's next step in Prometheus's engine: a compensated sum, a running mean, an
//   extreme, a count, Welford's recurrence. So the bits are that engine's, too, if batches
//   come in their order.
// Grid: x 32 or 16 steps; y the groups that have a part in the batch, those of group groups[i] being
//   rows[starts[i]] to rows[starts[i+1]] of values; both in strides of the grid.
// In a block of 32 threads by some, a warp owns a group: a thread adds the series at one step one after
//   the other. Where there are few groups, a block of 16 by 16 owns one at 16 steps: its threads make
//   sums as in rounds.h, a row of them the extreme or the count of a stretch of series, and for
//   deviations, which are one chain, all load.
// Bytes per series and step: reads 8. Reads and writes 24 a group and step.
// Operations per series and step: 9 for sums, 3 for extremes, 1 for counts, 8 and a division
//   for the variance.
#include "../values/rounds.h"

const u32 kSharedRows = kLoaders + 2;

union Shared {
  Rounds rounds;
  State states[kSharedRows][kSharedSteps];  // of stretches
  double loaded[kSharedRows * kAtOnce][32];
};

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

// Adds series one after the other.
template <u32 op>
DEVICE void add_series(const Column& c, u32 from, u32 to, State& s) {
  each_in_turn(c, from, to, [&](u32 first, const double* v) {
    if (op != kSum && op != kAvg) {
      UNROLL for (u32 i = 0; i < kAtOnce; i++) add_present<op>(s, v[i]);
    } else if (!add_sums(s, v)) {
      NO_UNROLL for (u32 i = first; i < to && i < first + kAtOnce; i++) add_present<op>(s, c.value(i));
    }
  });
}

// Adds what a stretch of series came to, of an extreme or a count, to that of the series before it.
DEVICE void join(Operator op, State& s, const State& o) {
  u32 n = s.n + o.n;
  if (o.n > 0 && op == kMin) add_value<kMin>(s, o.value);
  if (o.n > 0 && op == kMax) add_value<kMax>(s, o.value);
  s.n = n;
}

#define ACCUMULATE_THREADS MAX_THREADS_AND_BLOCKS(256, 2)

KERNEL ACCUMULATE_THREADS group_accumulate(const double* __restrict__ values, u32 steps, const u32* __restrict__ groups,
                                           const u32* __restrict__ starts, const u32* __restrict__ rows, u32 count,
                                           Operator op, State* __restrict__ states) {
  SHARED Shared shared;
  bool alone = threads_x() == 32, first = alone || thread_y() == 0;
  bool sums = op == kSum || op == kAvg, varies = op == kStdDev || op == kStdVar, joins = !alone && !sums && !varies;
  u32 k = block_x() * threads_x() + thread_x();
  bool mine = k < steps && first;
  if (k >= steps) k = 0;
  Column c{values + k, rows, steps};
  u32 each = alone ? threads_y() : 1;
  for (u32 i = block_y() * each + (alone ? thread_y() : 0); i < count; i += blocks_y() * each) {
    u32 from = starts[i], to = starts[i + 1];
    State* state = states + (u64)groups[i] * steps + k;
    State s = *state;
    if (!alone && sums) from = add_in_rounds(c, from, to, shared.rounds, s);
    if (joins) {
      u32 stretch = (to - from + threads_y() - 1) / threads_y();
      from = to - from < stretch * thread_y() ? to : from + stretch * thread_y();
      to = to - from < stretch ? to : from + stretch;
      if (!first) s = State{};
    }
    if (!alone && varies) {
      each_of(c, from, to, shared.loaded, [&](u32, const double* v) {
        UNROLL for (u32 j = 0; j < kAtOnce; j++) add_present<kStdVar>(s, v[j]);
      });
    } else if (first || joins) {
      switch (op) {
        case kSum: add_series<kSum>(c, from, to, s); break;
        case kAvg: add_series<kAvg>(c, from, to, s); break;
        case kMin: add_series<kMin>(c, from, to, s); break;
        case kMax: add_series<kMax>(c, from, to, s); break;
        case kStdDev:
        case kStdVar: add_series<kStdVar>(c, from, to, s); break;
        default: add_series<kCount>(c, from, to, s);
      }
    }
    if (joins) {
      barrier();  // of the group before nothing is read any more
      shared.states[thread_y()][thread_x()] = s;
      barrier();
      for (u32 y = 1; first && y < threads_y(); y++) join(op, s, shared.states[y][thread_x()]);
    }
    if (mine) *state = s;
  }
}
