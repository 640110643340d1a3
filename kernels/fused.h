// Windows that share no sample, computed while the chunks of series are decoded:
// no sample is stored in between.
#pragma once
#include "packed.h"

// What a fused kernel is given: the series of a batch (tiles of them, and of each the
// tiles of chunks), `count` chunks in a slab as decode_series has them, the windows
// (start+k*interval-width, start+k*interval] of so many steps, ms, where width is at
// most the interval or there is one step, and where results go: see WINDOW_PARAMETERS.
#define FUSED_PARAMETERS                                                                                            \
  const u32 *__restrict__ first, u32 tiles, const u8 *__restrict__ slab, const Entry *__restrict__ entries,         \
      const SeriesChunk *__restrict__ wide, i64 since, u32 count, u32 drop, u64 *__restrict__ fault, u64 fault_base, \
      i64 start, i64 interval, u32 steps, i64 width, u64 *__restrict__ out, u64 *__restrict__ reads,                \
      SeriesCounts *__restrict__ counts

#define FUSED_JOB                                                                                                      \
  FusedJob {                                                                                                           \
    first, tiles, slab, Table{entries, wide, since}, count, drop != 0, fault, fault_base, start, interval, steps, width, \
        out, reads, counts                                                                                             \
  }

struct FusedJob {
  const u32* __restrict__ first;
  u32 tiles;
  const u8* __restrict__ slab;
  Table table;
  u32 count;
  bool drop;
  u64* __restrict__ fault;
  u64 fault_base;
  i64 start, interval;
  u32 steps;
  i64 width;
  u64* __restrict__ out;
  u64* __restrict__ reads;
  SeriesCounts* __restrict__ counts;

  // The tile of series that a tile of chunks belongs to; each has one at least.
  DEVICE u32 tile_of(u32 chunks) const {
    u32 lo = 0, hi = tiles;
    while (hi - lo > 1) {
      u32 mid = (lo + hi) / 2;
      if (first[mid] <= chunks) {
        lo = mid;
      } else {
        hi = mid;
      }
    }
    return lo;
  }

  // The number of windows that begin before time t.
  DEVICE u32 begun(i64 t) const {
    i64 begin = start - width;
    if (t <= begin) return 0;
    u64 n = ((u64)t - (u64)begin - 1) / (u64)(interval > 0 ? interval : 1) + 1;
    return n < steps ? (u32)n : steps;
  }
};

// What comes of a window: the bits of a value, the samples that it reads, and those that
// count for the sample limit.
struct Found {
  u64 value;
  u32 read, held;
};

// Computes a thread's windows, one after the other, from samples in their order. F has
// begin(out), add(n, t, v) with the number of the sample in the window, and
// found(n, begin, end).
template <class F>
struct Fuse {
  F& f;
  Results to;
  i64 begin, end, interval;  // of the window; kNever behind the last one
  u32 left;                  // windows, this one included
  u32 n;                     // its samples
  bool own;                  // the chunk is this thread's
  bool drop;                 // stale markers are no samples
  i64 earliest, latest;      // times in the chunk

  DEVICE Fuse(F& f, const FusedJob& job, u32 tile, u32 lane, u32 from, u32 upto)
      : f(f),
        to(results_of(Stretch{tile, lane, from, upto}, job.steps, job.out, job.reads, job.counts)),
        begin(kNever), end(kNever), interval(job.interval), left(from < upto ? upto - from : 0), n(0), own(true),
        drop(job.drop), earliest(0), latest(kNever) {
    if (left == 0) return;
    end = job.start + (i64)from * interval;
    begin = end - job.width;
    f.begin(to.out);
  }

  // Writes what comes of the window and goes on to the next.
  DEVICE void close() {
    Found x = f.found(n, begin, end);
    emit(to, x.value, x.read, x.read, x.held);
    n = 0;
    if (--left == 0) {
      begin = end = kNever;
      return;
    }
    begin += interval;
    end += interval;
    f.begin(to.out);
  }

  DEVICE bool operator()(u32 i, u64 time, u64 v) {
    i64 t = (i64)time;
    if (i == 0) earliest = t;
    latest = t;
    if (drop && v == kStaleMarker) return true;
    while (t > end) close();
    if (t > begin) f.add(n++, t, as_double(v));
    return own || left > 0;
  }
};

template <bool mixed, class Sink>
DEVICE u32 decode_either(const u8* slab, ChunkRef ref, Sink& sink) {
  bool second = mixed && ref.samples & kXOR2;
  ref.samples &= kXOR2 - 1;
  return (second ? decode_chunk2(slab, ref, sink) : decode_chunk(slab, ref, sink)) & (kStale - 1);
}

// Computes the windows of this thread's chunk: those that begin in its stated time
// range or in the gap before it; the series' last chunk has all that begin later, too.
// The thread goes on into the next chunks until the last of them ends. So each window
// has one owner, and each chunk is decoded, and checked, as a whole by one thread.
// f.more() says whether all is to be gone through again.
template <bool mixed, class F>
DEVICE void fused(const FusedJob& job, F& f) {
  u32 id = block_x() * threads_x() + thread_x();
  if (id >= job.count) return;
  const Table& table = job.table;
  u32 lane = id % 32, place = id / 32;
  u32 tile = job.tile_of(place);
  u32 behind = job.first[tile + 1];
  bool is_first = place == job.first[tile];
  ChunkRef mine = table.ref(id);
  if (mine.len == 0 && !is_first) return;
  i64 earliest, latest;
  u32 from = 0, upto = job.steps;
  if (!is_first) {
    table.range(id - 32, earliest, latest);
    from = job.begun(latest);
  }
  table.range(id, earliest, latest);
  if (mine.len > 0 && place + 1 < behind && table.ref(id + 32).len > 0) upto = job.begun(latest);
  for (;;) {
    Fuse<F> sink(f, job, tile, lane, from, upto);
    ChunkRef ref = mine;
    for (u32 chunk = id, at = place; ref.len > 0; ref = table.ref(chunk)) {
      sink.own = chunk == id;
      u32 status = decode_either<mixed>(job.slab, ref, sink);
      if (sink.own) {
        if (!status && (mine.samples & (kXOR2 - 1)) && !(sink.earliest >= earliest && sink.latest <= latest)) status = kOutside;
        if (status) atomic_min(job.fault, job.fault_base + (u64)id * 256 + status);
      }
      if (status || sink.left == 0 || ++at == behind) break;
      chunk += 32;
    }
    while (sink.left > 0) sink.close();
    if (f.more()) continue;
    finish(sink.to);
    return;
  }
}
