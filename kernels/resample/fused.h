// count_uniqs while chunks are decoded: no sample is stored. For buckets of which no two overlap, and
// that are not longer than chunks.
#pragma once
#include "../decode/owned.h"
#include "keyed.h"
#include "run.h"

// What a fused kernel is given: the series of a batch (tiles of them, and of each the tiles of
// chunks), `count` chunks in a slab as decode_series has them, the buckets, and where states of
// runs go: see count_uniqs.cu.
#define FUSED_RUNS_PARAMETERS                                                                                        \
  const u32 *__restrict__ first, u32 tiles, const u8 *__restrict__ slab, const Entry *__restrict__ entries,          \
      const SeriesChunk *__restrict__ wide, i64 since, u32 count, u64 *__restrict__ fault, u64 fault_base,           \
      const i64 *__restrict__ starts, const i64 *__restrict__ ends, i64 first_start, i64 first_end, i64 every,       \
      i64 later, u32 buckets, u32 parts, u32 *__restrict__ n, double *__restrict__ fields, u64 cells, u32 *__restrict__ points

// 64 registers a thread: with 5, 6 and 8 blocks a multiprocessor a mean of 1 G samples takes 10.1, 9.6 and
// 8.6 ms on an H200.
#define FUSED_RUNS_THREADS MAX_THREADS_AND_BLOCKS(128, 8)

// 80 registers a thread.
#define FUSED_KEYS_THREADS MAX_THREADS_AND_BLOCKS(128, 6)

#define FUSED_RUNS_JOB                                                                                        \
  FusedRunsJob {                                                                                              \
    {first, tiles, slab, Table{entries, wide, since}, count, fault, fault_base},                              \
        Buckets{starts, ends, first_start, first_end, every, later, buckets}, States{n, fields, cells, parts}, points \
  }

struct FusedRunsJob : OwnedChunks {
  Buckets buckets;
  States out;
  u32* __restrict__ points;

  DEVICE u32 begun(i64 t) const { return buckets.begun(t); }
};

// Takes the samples of a chunk from the first to the last and counts the runs of the buckets from k
// on and before `upto`. R is as for walk_runs in walk.h.
template <class R>
struct FusedRuns {
  const FusedRunsJob& job;
  R& r;
  u32 tile, k, upto;
  i64 edge;      // the end of bucket k if it has samples, else its beginning; kNever behind the last
  bool own;      // the chunk is this thread's
  bool more;     // the rest of the chunk is of interest
  bool outside;  // the chunk begins before its stated range
  i64 latest;    // time in the chunk
  u32 runs;
  u32 place;  // of the next tile of chunks

  DEVICE FusedRuns(const FusedRunsJob& job, const Owner& mine, R& r)
      : job(job), r(r), tile(mine.tile), k(mine.from), upto(mine.upto), edge(kNever), own(true), more(true),
        outside(false), latest(kNever), runs(0), place(mine.id / 32) {
    r.begin();
    if (k < upto) edge = job.buckets.start(k);
  }

  // Writes what there is of bucket k and goes on to the next.
  DEVICE void close() {
    u64 cell = ((u64)tile * job.buckets.count + k) * 32 + thread_x() % 32;
    u32 n = r.samples();
    job.out.n[cell] = n;
    if (n > 0) {
      r.end(k, cell);
      runs++;
      r.begin();
    }
    k++;
  }

  // Goes on to the bucket that time t is in or before, and says whether it is in it. t is not
  // before the edge.
  DEVICE bool turn(i64 t) {
    if (r.samples() > 0) close();
    for (; k < upto; close()) {
      edge = job.buckets.start(k);
      if (t < edge) return false;
      edge = job.buckets.end(k);
      if (t < edge) return true;
    }
    edge = kNever;
    more = own;
    return false;
  }

  DEVICE bool operator()(u32 i, u64 time, u64 bits) {
    i64 t = (i64)time;
    if (i == 0) {
      if (own) outside = t < job.earliest();
      r.enter(place++);
    }
    latest = t;
    if (bits == kStaleMarker) return true;
    if (t >= edge ? turn(t) : r.samples() > 0) r.add(t, as_double(bits), i);
    return more;
  }
};

// Counts the runs of this thread's chunk. Reports false where r.failed() says that another kind of run
// must go through it again.
template <class R>
DEVICE bool fuse_runs(const FusedRunsJob& job, R&& r) {
  Owner mine;
  if (!mine.finds(job, job.buckets.count)) return true;
  FusedRuns<R> sink(job, mine, r);
  mine.decode(job, sink);
  while (sink.k < sink.upto) sink.close();
  if (r.failed()) return false;
  if (sink.runs) atomic_add(job.points + mine.tile * 32 + thread_x() % 32, sink.runs);
  return true;
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
    run.end(job.buckets.closes(k));
    if (!run.sure()) {
      if (sure) {
        right.give(run.s, job.buckets.closes(k));
      } else {
        wrong = true;
      }
    }
    run.square();
    job.out.store(cell, run.s, job.out.parts);
  }
};

// The same for runs with sums that overflow or are not finite. Their keys are stored already.
NOINLINE void fuse_runs_again(FusedRunsJob job) {
  fuse_runs(job, FusedRun<kAllParts, true>(job));
}

template <Parts made>
DEVICE void fuse_states(const FusedRunsJob& job) {
  if (!fuse_runs(job, FusedRun<made, false>(job))) fuse_runs_again(job);
}

// The same with the samples' keys.
template <Parts made>
DEVICE void fuse_keys(const FusedRunsJob& job, const KeysOut& to) {
  if (!fuse_runs(job, Keyed(FusedRun<made, false>(job), to))) fuse_runs_again(job);
}
