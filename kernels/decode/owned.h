// Threads that own an XOR chunk each, for kernels that compute something while chunks are decoded
// and store no sample in between.
#pragma once
#include "chunk.h"
#include "table.h"

// A batch of series (tiles of them, and of each the tiles of chunks), and `count` chunks in a slab as
// decode_series has them.
struct OwnedChunks {
  const u32* __restrict__ first;
  u32 tiles;
  const u8* __restrict__ slab;
  Table table;
  u32 count;
  u64* __restrict__ fault;
  u64 fault_base;

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

  // The ends of the stated time range of this thread's chunk, and of any.
  DEVICE i64 earliest() const { return table.range(this_chunk()).from; }
  DEVICE i64 latest(u32 id) const { return table.range(id).to; }

  DEVICE static u32 this_chunk() { return block_x() * threads_x() + thread_x(); }
};

// What the owner of a chunk computes: those of a series' ranges of time, of which no two share a
// sample, that begin in the chunk's stated time range or in the gap before it; the series' last
// chunk has all that begin later, too. The thread goes on into the next chunks until the last of
// them ends. So each range has one owner, and each chunk is decoded, and checked, as a whole by
// one thread.
struct Owner {
  u32 id, tile;
  u32 from, upto;  // of the ranges
  ChunkRef ref;

  // Finds what this thread owns, if it is anything, of so many ranges. job.begun(t) is the number of
  // them of which samples up to time t can be.
  template <class Job>
  DEVICE bool finds(const Job& job, u32 ranges) {
    id = OwnedChunks::this_chunk();
    if (id >= job.count) return false;
    const Table& table = job.table;
    u32 place = id / 32;
    tile = job.tile_of(place);
    ref = table.ref(id);
    from = 0;
    upto = ranges;
    if (place > job.first[tile]) {
      if (ref.len == 0) return false;
      from = job.begun(job.latest(id - 32));
    }
    if (ref.len > 0 && place + 1 < job.first[tile + 1] && table.ref(id + 32).len > 0) upto = job.begun(job.latest(id));
    return true;
  }

  // Has a sink take the samples until its range sink.k is `upto`. sink.own says whether the chunk is
  // this thread's, sink.outside whether it begins before its stated range, and sink.latest is the
  // last time in it.
  template <class Job, class Sink>
  DEVICE void decode(const Job& job, Sink& sink) {
    for (u32 chunk = id; ref.len > 0; ref = job.table.ref(chunk)) {
      u32 status = decode_chunk<XOR>(job.slab, ref, sink);
      if (sink.own) {
        if (!status && ref.samples > 0 && (sink.outside || sink.latest > job.latest(id))) status = kOutside;
        if (status) atomic_min(job.fault, job.fault_base + (u64)id * 256 + status);
        sink.own = false;
      }
      chunk += 32;
      if (status || sink.k >= upto || chunk / 32 == job.first[tile + 1]) break;
    }
  }
};
