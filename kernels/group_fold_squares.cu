// group_fold_squares: adds the values of a batch of series to the aggregates of their groups.
//
// Grid: x 32 steps, a block of 32 threads; y the groups that have a part in the
// batch, in strides of the grid.
// A thread owns one group at one step and adds the values of its series one after
// the other, in the order of the series: the additions of Prometheus's engine, and
// so its bits. Batches must come in their order.
// Reads 8 bytes a series and step: values[(p/32*steps+k)*32+p%32] of the series at
// place p of the batch. Those of group groups[i] have places starts[i] to starts[i+1].
// 32 series by 32 steps, 8 KiB in a row, are loaded at once, one step an instruction,
// while those before are added, and turned round in shared memory.
// Where groups have few series in a batch most of a square is not theirs: group_fold.
// Reads and writes states[groups[i]*steps+k], 24 bytes a group and step.
#include "squares.h"
#include "sums.h"

// Adds values to a state.
template <u32 op>
struct AddTo {
  static const bool kWhole = op == kSum || op == kAvg;
  State& s;
  DEVICE void operator()(u32, double v) { add_present<op>(s, v); }
  // Adds 32 values to a sum: first all to the sum alone, which is what one addition waits
  // for the other for, then what each loses. -0 stands for no value, and for the sum of
  // none: it changes nothing. Where the sum is not finite they are added one by one.
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
DEVICE void fold_squares(const Squares& q, u32 from, u32 to, Turned turned, State& s) {
  AddTo<op> f{s};
  each_in_squares(q, from, to, turned, f);
}

KERNEL MAX_THREADS(32) group_fold_squares(const double* __restrict__ values, u32 steps, const u32* __restrict__ groups,
                                          const u32* __restrict__ starts, u32 count, u32 op,
                                          State* __restrict__ states) {
  SHARED double turned[kSide][kSide + 1];
  Squares q = squares_of(values, steps, block_x());
  bool mine = thread_x() < q.height;
  for (u32 i = block_y(); i < count; i += blocks_y()) {
    u32 from = starts[i], to = starts[i + 1];
    State* state = states + (u64)groups[i] * steps + q.first + (mine ? thread_x() : 0);
    State s = *state;
    switch (op) {
      case kSum: fold_squares<kSum>(q, from, to, turned, s); break;
      case kAvg: fold_squares<kAvg>(q, from, to, turned, s); break;
      case kMin: fold_squares<kMin>(q, from, to, turned, s); break;
      case kMax: fold_squares<kMax>(q, from, to, turned, s); break;
      case kStdDev:
      case kStdVar: fold_squares<kStdVar>(q, from, to, turned, s); break;
      default: fold_squares<kCount>(q, from, to, turned, s);
    }
    if (mine) *state = s;
  }
}
