// count_uniqs while chunks are decoded: no sample is stored. For buckets of which no two overlap, and
// that are not longer than chunks.
#pragma once
#include "../decode/owned.h"
#include "run.h"

// What a fused kernel is given: the series of a batch (tiles of them, and of each the tiles of
// chunks), `count` chunks in a slab as decode_series has them, the buckets, and where states of
// runs go: see count_uniqs.cu.
#define FUSED_RUNS_PARAMETERS                                                                                        \
  const u32 *__restrict__ first, u32 tiles, const u8 *__restrict__ slab, const Entry *__restrict__ entries,          \
      const SeriesChunk *__restrict__ wide, i64 since, u32 count, u64 *__restrict__ fault, u64 fault_base,           \
      const i64 *__restrict__ starts, const i64 *__restrict__ ends, i64 first_start, i64 first_end, i64 every,       \
      u32 buckets, u32 parts, u32 *__restrict__ n, double *__restrict__ fields, u64 cells, u32 *__restrict__ points

// 64 registers a thread: with 5, 6 and 8 blocks a multiprocessor a mean of 1 G samples takes 10.1, 9.6 and
// 8.6 ms on an H200.
#define FUSED_RUNS_THREADS MAX_THREADS_AND_BLOCKS(128, 8)

#define FUSED_RUNS_JOB                                                                                        \
  FusedRunsJob {                                                                                              \
    {first, tiles, slab, Table{entries, wide, since}, count, fault, fault_base},                              \
        Buckets{starts, ends, first_start, first_end, every, buckets}, States{n, fields, cells, parts}, points \
  }

struct FusedRunsJob : OwnedChunks {
  Buckets buckets;
  States out;
  u32* __restrict__ points;

  DEVICE u32 begun(i64 t) const { return buckets.begun(t); }
};

// Counts the runs of samples that come in their order: of bucket k and those behind it up to upto.
// With `sure` it makes right sums of what overflows or is not finite; else it says that there is
// such a run.
template <Parts made, bool sure>
struct FusedRuns {
  const FusedRunsJob& job;
  u32 tile, k, upto;
  Run<made> r;
  SumOrMean right;
  i64 edge;      // the end of bucket k if it has samples, else its beginning; kNever behind the last
  bool own;      // the chunk is this thread's
  bool more;     // the rest of the chunk is of interest
  bool outside;  // the chunk begins before its stated range
  bool failed;   // a sum is not right
  i64 latest;    // time in the chunk
  u32 runs;

  DEVICE FusedRuns(const FusedRunsJob& job, const Owner& mine)
      : job(job), tile(mine.tile), k(mine.from), upto(mine.upto), edge(kNever), own(true), more(true), outside(false),
        failed(false), latest(kNever), runs(0) {
    r.begin();
    if (k < upto) edge = job.buckets.start(k);
  }

  // Writes the state of bucket k and goes on to the next.
  DEVICE void close() {
    u64 cell = ((u64)tile * job.buckets.count + k) * 32 + thread_x() % 32;
    job.out.n[cell] = r.s.n;
    if (r.s.n > 0) {
      r.end(job.buckets.end(k));
      if (!r.sure()) {
        if (sure) {
          right.give(r.s);
        } else {
          failed = true;
        }
      }
      r.square();
      job.out.store(cell, r.s, job.out.parts);
      runs++;
      r.begin();
    }
    k++;
  }

  // Goes on to the bucket that time t is in or before, and says whether it is in it. t is not
  // before the edge.
  DEVICE bool turn(i64 t) {
    if (r.s.n > 0) close();
    for (; k < upto; close()) {
      edge = job.buckets.start(k);
      if (t < edge) return false;
      edge = job.buckets.end(k);
      if (t < edge) {
        if (sure) right.begin();
        return true;
      }
    }
    edge = kNever;
    more = own;
    return false;
  }

  DEVICE bool operator()(u32 i, u64 time, u64 bits) {
    i64 t = (i64)time;
    if (i == 0 && own) outside = t < job.earliest();
    latest = t;
    if (bits == kStaleMarker) return true;
    if (t >= edge ? turn(t) : r.s.n > 0) {
      double v = as_double(bits);
      r.add(t, v);
      if (sure) right.add(v);
    }
    return more;
  }
};

template <bool mixed, Parts made, bool sure>
DEVICE bool fuse_runs_of(const FusedRunsJob& job) {
  Owner mine;
  if (!mine.finds(job, job.buckets.count)) return true;
  FusedRuns<made, sure> sink(job, mine);
  mine.decode<mixed>(job, sink);
  while (sink.k < sink.upto) sink.close();
  if (sink.failed) return false;
  if (sink.runs) atomic_add(job.points + mine.tile * 32 + thread_x() % 32, sink.runs);
  return true;
}

// The same for runs with sums that overflow or are not finite.
template <bool mixed>
NOINLINE void fuse_runs_again(FusedRunsJob job) {
  fuse_runs_of<mixed, kAllParts, true>(job);
}

template <bool mixed, Parts made>
DEVICE void fuse_runs(const FusedRunsJob& job) {
  if (!fuse_runs_of<mixed, made, false>(job)) fuse_runs_again<mixed>(job);
}
