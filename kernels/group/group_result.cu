// group_result: the values of aggregates whose series have all been added.
//
// Computes: out[i] = the sum, mean, extreme, count, deviation or variance that states[i] has,
//   kAbsent where no series has a value.
// Grid: one thread a group and step, blocks of 128.
// A thread owns one group at one step.
// Bytes per group and step: reads a State (24), writes a value (8).
// Operations per group and step: at most 4.
#include "../values/aggregate.h"

KERNEL MAX_THREADS(128) group_result(const State* __restrict__ states, u64 count, Operator op, u64* __restrict__ out) {
  u64 id = (u64)block_x() * threads_x() + thread_x();
  if (id >= count) return;
  State s = states[id];
  double v = 0;
  switch (op) {
    case kSum: v = result<kSum>(s); break;
    case kAvg: v = result<kAvg>(s); break;
    case kCount: v = result<kCount>(s); break;
    case kGroup: v = result<kGroup>(s); break;
    case kStdDev: v = result<kStdDev>(s); break;
    case kStdVar: v = result<kStdVar>(s); break;
    default: v = s.value;
  }
  out[id] = s.n ? as_bits(v) : kAbsent;
}
