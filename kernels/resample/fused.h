// count_uniqs while chunks are decoded: no sample is stored. For buckets of which no two overlap, and
// that are not longer than chunks.
#pragma once
#include "../decode/owned.h"
#include "run.h"

// What a fused kernel is given: chunks, the buckets, and where states of runs go: see count_uniqs.cu.
#define FUSED_RUNS_PARAMETERS                                                                              \
  OWNED_PARAMETERS, BUCKETS_PARAMETERS, u32 parts, u32 *__restrict__ n, double *__restrict__ fields, u64 cells, \
      u32 *__restrict__ points

// 64 registers a thread: with 5, 6 and 8 blocks a multiprocessor a mean of 1 G samples takes 10.1, 9.6 and
// 8.6 ms on an H200.
#define FUSED_RUNS_THREADS MAX_THREADS_AND_BLOCKS(128, 8)

#define FUSED_RUNS_JOB \
  FusedRunsJob { OWNED_CHUNKS, BUCKETS, States{n, fields, cells, parts}, points }

struct FusedRunsJob : OwnedChunks {
  Buckets edges;
  States out;
  u32* __restrict__ points;

  static constexpr bool drop = true;  // stale markers are no samples

  DEVICE u64 cell(u32 tile, u32 k) const { return ((u64)tile * edges.count + k) * 32 + thread_x() % 32; }
};

// Runs as fuse has them. R is as for walk_runs in walk.h.
template <class R>
struct Runs {
  const FusedRunsJob& job;
  R& r;
  u32 runs;

  DEVICE Runs(const FusedRunsJob& job, R& r) : job(job), r(r), runs(0) { r.begin(); }

  DEVICE u32 samples() const { return r.samples(); }
  DEVICE bool failed() const { return r.failed(); }
  DEVICE void enter(u32 place) { r.enter(place); }
  DEVICE void open(u64) {}
  DEVICE void add(i64 t, double v, u32 i) { r.add(t, v, i); }

  DEVICE void close(u32, u32 k, u64 cell) {
    u32 n = r.samples();
    job.out.n[cell] = n;
    if (n == 0) return;
    r.end(k, cell);
    runs++;
    r.begin();
  }

  DEVICE void finish(u32 tile) const {
    if (runs) atomic_add(job.points + tile * 32 + thread_x() % 32, runs);
  }
};

// Counts the runs of this thread's chunk, unless R fails.
template <class R>
DEVICE bool fuse_runs(const FusedRunsJob& job, R&& r) {
  return fuse(job, Runs<R>(job, r));
}

// A run whose state is stored. With `sure` it makes the right sums of what overflows or is not finite;
// else it says that there is such a run.
template <Parts made, bool sure>
struct FusedRun {
  const FusedRunsJob& job;
  Run<made> run;
  SureSums right;
  bool wrong;

  DEVICE explicit FusedRun(const FusedRunsJob& job) : job(job), wrong(false) {}

  DEVICE u32 samples() const { return run.s.n; }
  DEVICE bool failed() const { return wrong; }

  DEVICE void begin() {
    run.begin();
    if (sure) right.begin();
  }

  DEVICE void enter(u32) {}

  DEVICE void add(i64 t, double v, u32) {
    run.add(t, v);
    if (sure) right.add(t, v);
  }

  DEVICE void end(u32 k, u64 cell) {
    run.end(job.edges.closes(k));
    if (!run.sure()) {
      if (sure) {
        right.give(run.s, job.edges.closes(k));
      } else {
        wrong = true;
      }
    }
    run.square();
    job.out.store(cell, run.s, job.out.parts);
  }
};

// The same for runs with sums that overflow or are not finite.
NOINLINE void fuse_runs_again(FusedRunsJob job) {
  fuse_runs(job, FusedRun<kAllParts, true>(job));
}

template <Parts made>
DEVICE void fuse_states(const FusedRunsJob& job) {
  if (!fuse_runs(job, FusedRun<made, false>(job))) fuse_runs_again(job);
}
