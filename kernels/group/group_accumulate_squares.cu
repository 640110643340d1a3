// group_accumulate_squares: group_accumulate for groups that have many series in the batch.
//
// Computes: what group_accumulate does, to the bit.
// Grid: x 32 steps, a block of 32 threads; y the groups that have a part in the batch, in
//   strides of the grid.
// A thread owns one group at one step and adds the values of its series one after the other,
//   in the order of the series. The block loads 32 series by 32 steps, 8 KiB in a row, at
//   once, one step an instruction, while those before are added, and transposes them in
//   shared memory. Where groups have few series most of a square is not theirs.
// Bytes per series and step: reads 8. Reads and writes 24 a group and step.
// Operations per series and step: 9 for sums, 3 for extremes, 1 for counts, 8 and a division
//   for the variance.
#include "../values/aggregate.h"
#include "../values/squares.h"

// Adds values to a state.
template <u32 op>
struct AddTo {
  static const bool kWhole = op == kSum || op == kAvg;
  State& s;
  DEVICE void operator()(u32, double v) { add_present<op>(s, v); }
  // Sum 32 values first: that is the only dependency chain. Then compute their rounding
  // errors, which are independent. -0 stands for no value, and for the sum of none: it
  // changes nothing. Where the sum is not finite the values are added one by one.
  DEVICE void square(u32, const double* values) {
    double v[kSide], sums[kSide + 1], lost = s.lost;
    u32 n = s.n;
    sums[0] = n > 0 ? s.value : -0.0;
    UNROLL for (u32 i = 0; i < kSide; i++) {
      bool present = as_bits(values[i]) != kAbsent;
      v[i] = present ? values[i] : -0.0;
      n += present;
    }
    UNROLL for (u32 i = 0; i < kSide; i++) sums[i + 1] = sums[i] + v[i];
    UNROLL for (u32 i = 0; i < kSide; i++) lost += lost_by(sums[i], v[i], sums[i + 1]);
    if (s.running || !is_finite(sums[kSide])) {
      for (u32 i = 0; i < kSide; i++) add_present<op>(s, values[i]);
      return;
    }
    s.lost = lost;
    s.value = sums[kSide];
    s.n = n;
  }
};

template <u32 op>
DEVICE void accumulate_all(const Squares& q, u32 from, u32 to, Turned turned, State& s) {
  AddTo<op> f{s};
  each_in_squares(q, from, to, turned, f);
}

KERNEL MAX_THREADS(32) group_accumulate_squares(const double* __restrict__ values, u32 steps,
                                                const u32* __restrict__ groups, const u32* __restrict__ starts,
                                                u32 count, Operator op, State* __restrict__ states) {
  SHARED double turned[kSide][kSide + 1];
  Squares q = squares_of(values, steps, block_x());
  bool mine = thread_x() < q.height;
  for (u32 i = block_y(); i < count; i += blocks_y()) {
    u32 from = starts[i], to = starts[i + 1];
    State* state = states + (u64)groups[i] * steps + q.first + (mine ? thread_x() : 0);
    State s = *state;
    switch (op) {
      case kSum: accumulate_all<kSum>(q, from, to, turned, s); break;
      case kAvg: accumulate_all<kAvg>(q, from, to, turned, s); break;
      case kMin: accumulate_all<kMin>(q, from, to, turned, s); break;
      case kMax: accumulate_all<kMax>(q, from, to, turned, s); break;
      case kStdDev:
      case kStdVar: accumulate_all<kStdVar>(q, from, to, turned, s); break;
      default: accumulate_all<kCount>(q, from, to, turned, s);
    }
    if (mine) *state = s;
  }
}
