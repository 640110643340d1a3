// custom_runs while chunks are decoded: no sample is stored. For buckets of which no two overlap, and
// that are not longer than chunks.
#pragma once
#include "../resample/fused.h"
#include "custom_run.h"

// Has a program take the samples of runs, which come in their order: of bucket k and those behind it
// up to upto. As FusedRuns does.
struct CustomFused {
  const FusedRunsJob& job;
  CustomStates out;
  u32 tile, k, upto;
  CustomRun r;
  i64 edge;      // the end of bucket k if it has samples, else its beginning; kNever behind the last
  bool own;      // the chunk is this thread's
  bool more;     // the rest of the chunk is of interest
  bool outside;  // the chunk begins before its stated range
  i64 latest;    // time in the chunk
  u32 runs;

  DEVICE CustomFused(const FusedRunsJob& job, const CustomStates& out, const Owner& mine)
      : job(job), out(out), tile(mine.tile), k(mine.from), upto(mine.upto), edge(kNever), own(true), more(true),
        outside(false), latest(kNever), runs(0) {
    r.begin();
    if (k < upto) edge = job.buckets.start(k);
  }

  // Writes what there is of bucket k and goes on to the next.
  DEVICE void close() {
    runs += r.n > 0;
    r.end(out, ((u64)tile * job.buckets.count + k) * 32 + thread_x() % 32, job.buckets.start(k), job.buckets.end(k));
    r.n = 0;
    k++;
  }

  // Goes on to the bucket that time t is in or before, and says whether it is in it. t is not
  // before the edge.
  DEVICE bool turn(i64 t) {
    if (r.n > 0) close();
    for (; k < upto; close()) {
      edge = job.buckets.start(k);
      if (t < edge) return false;
      edge = job.buckets.end(k);
      if (t < edge) {
        r.begin();
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
    if (t >= edge ? turn(t) : r.n > 0) r.add(t, as_double(bits));
    return more;
  }
};

template <bool mixed>
DEVICE void fuse_custom(const FusedRunsJob& job, double* __restrict__ found) {
  Owner mine;
  if (!mine.finds(job, job.buckets.count)) return;
  CustomFused sink(job, CustomStates{job.out.n, job.out.fields, job.out.cells, found}, mine);
  mine.decode<mixed>(job, sink);
  while (sink.k < sink.upto) sink.close();
  if (sink.runs) atomic_add(job.points + mine.tile * 32 + thread_x() % 32, sink.runs);
}
