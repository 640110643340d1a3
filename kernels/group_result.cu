// group_result: the values of aggregates whose series have all been added.
//
// Grid: one thread a group and step, blocks of 128.
// Reads a State (24 bytes) and writes a value (8 bytes) each, kAbsent where no
// series has a value.
#include "series.h"
#include "sums.h"

KERNEL MAX_THREADS(128) group_result(const State* __restrict__ states, u64 count, u32 op, u64* __restrict__ out) {
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
