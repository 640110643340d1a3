// The strategy for windows that share no sample: a policy computes them while the chunks of
// series are decoded, and no sample is stored in between.
#pragma once
#include "../decode/owned.h"
#include "policy.h"

// What a fused kernel is given: the series of a batch (tiles of them, and of each the
// tiles of chunks), `count` chunks in a slab as decode_series has them, the windows
// (start+k*interval-width, start+k*interval] of so many steps, ms, where width is at
// most the interval or there is one step, and where results go: see WINDOW_PARAMETERS in job.h.
#define FUSED_PARAMETERS                                                                                            \
  const u32 *__restrict__ first, u32 tiles, const u8 *__restrict__ slab, const Entry *__restrict__ entries,         \
      const SeriesChunk *__restrict__ wide, i64 since, u32 count, Flag drop, u64 *__restrict__ fault, u64 fault_base, \
      i64 start, i64 interval, u32 steps, i64 width, u64 *__restrict__ out, u64 *__restrict__ reads,                \
      SeriesCounts *__restrict__ counts

// 64 registers a thread, some of which are spilled where a window ends, so that there are
// threads enough to wait for chunks. docs/gpu.md has what other numbers cost.
#define FUSED_THREADS MAX_THREADS_AND_BLOCKS(128, 8)

#define FUSED_JOB                                                                                                      \
  FusedJob {                                                                                                           \
    {first, tiles, slab, Table{entries, wide, since}, count, fault, fault_base}, drop != 0, start, interval, steps,      \
        width, out, reads, counts                                                                                      \
  }

struct FusedJob : OwnedChunks {
  bool drop;
  i64 start, interval;
  u32 steps;
  i64 width;
  u64* __restrict__ out;
  u64* __restrict__ reads;
  SeriesCounts* __restrict__ counts;

  // The counts of this thread's series, in that tile.
  DEVICE SeriesCounts* counts_of(u32 tile) const { return counts + tile * 32 + thread_x() % 32; }

  // The number of windows that begin before time t.
  DEVICE u32 begun(i64 t) const {
    i64 begin = start - width;
    if (t <= begin) return 0;
    u64 n = ((u64)t - (u64)begin - 1) / (u64)(interval > 0 ? interval : 1) + 1;
    return n < steps ? (u32)n : steps;
  }
};

// Computes windows from samples in their order: k and those behind it up to upto, by the
// policy F. Registers are what the kernels are short of: what is needed once a window is
// computed anew.
template <class F>
struct Fuse {
  F& f;
  const FusedJob& job;
  u32 tile, k, upto;
  u32 n;             // samples of window k
  i64 edge;          // its end if it has samples, else its beginning; kNever behind the last
  bool own;          // the chunk is this thread's
  bool more;         // the rest of the chunk is of interest
  bool outside;      // the chunk begins before its stated range
  i64 latest;        // time in the chunk
  u32 points, most;  // see SeriesCounts

  DEVICE Fuse(F& f, const FusedJob& job, u32 tile, u32 from, u32 upto)
      : f(f), job(job), tile(tile), k(from), upto(upto), n(0), edge(kNever), own(true), more(true), outside(false),
        latest(kNever), points(0), most(0) {
    if (from < upto) edge = begin();
  }

  DEVICE i64 begin() const { return job.start + (i64)k * job.interval - job.width; }
  DEVICE u64 place() const { return ((u64)tile * job.steps + k) * 32 + thread_x() % 32; }

  // Writes what comes of window k and goes on to the next.
  DEVICE void close() {
    Found x{kAbsent, 0, 0};
    if (n > 0) x = f.found(n, begin(), begin() + job.width);
    store_streaming(job.out + place(), x.value);
    store_streaming(job.reads + place(), (u64)x.read << 32 | x.read);
    if (x.value != kAbsent) points++;
    if (x.held > most) most = x.held;
    if (++k == job.steps) job.counts_of(tile)->last = x.held;
    n = 0;
  }

  // Goes on to the window that time t is in or before, and says whether it is in it. t
  // is behind the edge.
  DEVICE bool turn(i64 t) {
    if (n > 0) close();
    for (; k < upto; close()) {
      edge = begin();
      if (t <= edge) return false;
      edge += job.width;
      if (t <= edge) {
        f.begin(Beginning{0, 0, 0, job.out + place()});
        return true;
      }
    }
    edge = kNever;
    more = own;
    return false;
  }

  DEVICE bool operator()(u32 i, u64 time, u64 v) {
    i64 t = (i64)time;
    if (i == 0 && own) outside = t < job.earliest();
    latest = t;
    if (job.drop && v == kStaleMarker) return true;
    if (t > edge ? turn(t) : n > 0) f.add(n++, t, as_double(v));
    return more;
  }

  // Writes the windows that are left.
  DEVICE void finish() {
    while (k < upto) close();
  }
};

// Computes the windows that begin in this thread's chunk: see Owner. Returns whether that is all:
// where f.failed() says that F does not do, another goes through it again.
template <class F>
DEVICE bool fused(const FusedJob& job, F&& f) {
  Owner mine;
  if (!mine.finds(job, job.steps)) return true;
  Fuse<F> sink(f, job, mine.tile, mine.from, mine.upto);
  mine.decode(job, sink);
  sink.finish();
  if (f.failed()) return false;
  if (sink.points) atomic_add(&job.counts_of(mine.tile)->points, sink.points);
  if (sink.most) atomic_max(&job.counts_of(mine.tile)->most, sink.most);
  return true;
}
