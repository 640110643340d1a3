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
#include "series.h"
#include "sums.h"

const u32 kSide = 32;  // series and steps of a square; the size of a block

typedef double (*Turned)[kSide + 1];  // a square in shared memory; the column more keeps its banks apart

// The squares of a group at the steps of a block.
struct Squares {
  const double* __restrict__ values;
  u32 steps;
  u32 first;   // step of the block
  u32 height;  // steps of the block that there are

  // Loads this thread's column of the square of series `tile`.
  DEVICE void load(u64 tile, double v[kSide]) const {
    const double* __restrict__ at = values + (tile * steps + first) * kSide + thread_x();
    UNROLL for (u32 k = 0; k < kSide; k++) v[k] = at[(k < height ? k : 0) * kSide];
  }
};

// Adds the series at places from to to to this thread's step.
template <u32 op>
DEVICE void fold_squares(const Squares& q, u32 from, u32 to, Turned turned, State& s) {
  u32 me = thread_x();
  double v[kSide];
  u32 tile = from / kSide;
  q.load(tile, v);
  while (from < to) {
    barrier();  // all have read what is there
    UNROLL for (u32 k = 0; k < kSide; k++) turned[k][me] = v[k];
    barrier();
    u32 lane = from % kSide;
    u32 lanes = to - from < kSide - lane ? to - from : kSide - lane;
    from += lanes;
    if (from < to) q.load(++tile, v);
    for (u32 end = lane + lanes; lane < end; lane++) add_present<op>(s, turned[me][lane]);
  }
}

KERNEL MAX_THREADS(32) group_fold_squares(const double* __restrict__ values, u32 steps, const u32* __restrict__ groups,
                                          const u32* __restrict__ starts, u32 count, u32 op,
                                          State* __restrict__ states) {
  SHARED double turned[kSide][kSide + 1];
  u32 first = block_x() * kSide;
  Squares q{values, steps, first, steps - first < kSide ? steps - first : kSide};
  bool mine = thread_x() < q.height;
  for (u32 i = block_y(); i < count; i += blocks_y()) {
    u32 from = starts[i], to = starts[i + 1];
    State* state = states + (u64)groups[i] * steps + first + (mine ? thread_x() : 0);
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
