// square_terms: what each run of a batch adds to its group's squared distances from the mean.
//
// Computes: before[i] = that of run i, from the group's count and sum before it, which merge_runs left
//   there; 0 where there is no run. With `values`, one a run, a run is that value alone.
// Grid: one thread a state, blocks of 128.
// A thread owns one run.
// Bytes per run: reads 4, 24, and the run's sum and squares, 24, or its value, 8; writes 8.
// Operations per run: 60, most of them for divisions.
#include "before.h"

KERNEL MAX_THREADS(128) square_terms(u32* __restrict__ n, double* __restrict__ fields, u64 cells, u32 parts,
                                     const double* __restrict__ values, double* __restrict__ before) {
  u64 id = (u64)block_x() * threads_x() + thread_x();
  if (id >= cells) return;
  double term = 0;
  if (n[id] > 0) {
    RunState o = values ? state_of(values[id]) : States{n, fields, cells, parts}.load(id, kSumPart | kSquaresPart);
    RunState s = Before{before, cells}.load(id);
    term = s.n > 0 ? squares_of_merging(s, o) : o.squares;
  }
  before[id] = term;
}
