// state_values: what an aggregate makes of states, of runs or of groups.
//
// Computes: out[i] = the aggregate of state i, of those that have samples.
// Grid: one thread a state, blocks of 128.
// A thread owns one state.
// Bytes per state: reads 4 and the fields that the aggregate reads, 8 each; writes 8.
// Operations per state: at most 4.
#include "state.h"

KERNEL MAX_THREADS(128) state_values(u32* __restrict__ n, double* __restrict__ fields, u64 cells, u32 parts, u32 aggregate,
                                     double* __restrict__ out) {
  u64 id = (u64)block_x() * threads_x() + thread_x();
  if (id >= cells) return;
  RunState s = States{n, fields, cells, parts}.load(id, parts_of(aggregate));
  if (s.n > 0) out[id] = result_of(aggregate, s);
}
