// Runs of stored samples whose states are stored.
#pragma once
#include "walk.h"

// A run whose state is stored.
template <Parts made, bool differences>
struct StoredRun {
  const RunsJob& job;
  const States& out;
  Run<made> run;

  DEVICE StoredRun(const RunsJob& job, const States& out) : job(job), out(out) {}

  DEVICE u32 samples() const { return run.s.n; }
  DEVICE void begin() { run.begin(); }
  DEVICE void enter(u32) {}
  DEVICE void add(i64 t, double v, u32) { run.add(t, v); }

  DEVICE void end(u32 k, u64 cell) {
    run.end(job.buckets.closes(k));
    if (!run.sure()) sums_again<differences>(job, k).give(run.s, job.buckets.closes(k));
    run.square();
    out.store(cell, run.s, out.parts);
  }
};

// Counts the runs of this thread's series, with the loop for the parts that are stored; of(run) is what
// takes the samples of each.
template <bool differences, class Of>
DEVICE u32 count_runs(const RunsJob& job, const States& out, Of&& of) {
  if (!(out.parts & ~kSums)) return walk_runs<differences>(job, out.n, of(StoredRun<kSums, differences>(job, out)));
  if (!(out.parts & ~kUsual)) return walk_runs<differences>(job, out.n, of(StoredRun<kUsual, differences>(job, out)));
  return walk_runs<differences>(job, out.n, of(StoredRun<kAllParts, differences>(job, out)));
}

// 96 registers a thread, so that 20 warps of a multiprocessor wait for samples at once.
#define COUNT_THREADS MAX_THREADS_AND_BLOCKS(128, 5)
