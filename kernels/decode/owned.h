// The one template of fused kernels, which compute something of ranges of time while XOR chunks are
// decoded and store no sample in between. No two ranges share a sample. What ranges are says a policy
// of edges: Steps in ../window/fused.h.
#pragma once
#include "../abi/series.h"
#include "chunk.h"
#include "table.h"

// What every fused kernel is given first: a batch of series (tiles of them, and of each the tiles of
// chunks), and `count` chunks in a slab as decode_series has them.
#define OWNED_PARAMETERS                                                                                      \
  const u32 *__restrict__ first, u32 tiles, const u8 *__restrict__ slab, const Entry *__restrict__ entries,  \
      const SeriesChunk *__restrict__ wide, i64 since, u32 count, u64 *__restrict__ fault, u64 fault_base

#define OWNED_CHUNKS \
  { first, tiles, slab, Table{entries, wide, since}, count, fault, fault_base }

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

// Computes the ranges that this thread owns: those that begin in its chunk's stated time range or in
// the gap before it; a series' last chunk has all that begin later, too. The thread goes on into the
// next chunks until the last of them ends. So each range has one owner, and each chunk is decoded, and
// checked, as a whole by one thread. Registers are what fused kernels are short of: what is needed once
// a range is computed anew.
//
// Job is OwnedChunks with `drop`, whether stale markers are left out, cell(tile, k), where what comes of
// range k of this thread's series goes, and `edges`, which has
//   start(k), end(k)   range k has the samples of start(k) <= t < end(k), ms; both ascend
//   begun(t)           the number of ranges of which samples up to time t can be, of `count`
// and Out takes samples, range by range:
//   enter(place)       samples are from here on those of a chunk in that tile of chunks
//   open(cell)         a range begins that has samples
//   add(t, v, i)       one of them, which has number i in its chunk
//   samples()          how many the range has so far
//   close(tile, k, cell)  writes what comes of range k, of any number of samples
//   failed()           another must go through all of it again
//   finish(tile)       adds what there is of all ranges to what is counted of the series
template <class Job, class Out>
struct Fuse {
  const Job& job;
  Out& out;
  u32 id, tile;
  u32 k, upto;   // of the ranges
  u32 place;     // the next tile of chunks
  i64 edge;      // the end of range k if it has samples, else its beginning; kNever behind the last
  bool own;      // the chunk is this thread's
  bool more;     // the rest of the chunk is of interest
  bool outside;  // the chunk begins before its stated range
  i64 latest;    // time in the chunk
  ChunkRef own_ref;

  DEVICE Fuse(const Job& job, Out& out) : job(job), out(out), edge(kNever), own(true), more(true), outside(false), latest(kNever) {}

  // Finds what this thread owns, if it is anything.
  DEVICE bool finds() {
    id = OwnedChunks::this_chunk();
    if (id >= job.count) return false;
    const Table& table = job.table;
    place = id / 32;
    tile = job.tile_of(place);
    own_ref = table.ref(id);
    k = 0;
    upto = job.edges.count;
    if (place > job.first[tile]) {
      if (own_ref.len == 0) return false;
      k = job.edges.begun(job.latest(id - 32));
    }
    if (own_ref.len > 0 && place + 1 < job.first[tile + 1] && table.ref(id + 32).len > 0) upto = job.edges.begun(job.latest(id));
    if (k < upto) edge = job.edges.start(k);
    return true;
  }

  // Writes what comes of range k and goes on to the next.
  DEVICE void close() {
    out.close(tile, k, job.cell(tile, k));
    k++;
  }

  // Goes on to the range that time t is in or before, and says whether it is in it. t is not before
  // the edge.
  DEVICE bool turn(i64 t) {
    if (out.samples() > 0) close();
    for (; k < upto; close()) {
      edge = job.edges.start(k);
      if (t < edge) return false;
      edge = job.edges.end(k);
      if (t < edge) {
        out.open(job.cell(tile, k));
        return true;
      }
    }
    edge = kNever;
    more = own;
    return false;
  }

  // Takes a sample of a chunk.
  DEVICE bool operator()(u32 i, u64 time, u64 bits) {
    i64 t = (i64)time;
    if (i == 0) {
      if (own) outside = t < job.earliest();
      out.enter(place++);
    }
    latest = t;
    if (job.drop && bits == kStaleMarker) return true;
    if (t >= edge ? turn(t) : out.samples() > 0) out.add(t, as_double(bits), i);
    return more;
  }

  // Decodes chunks until all ranges are there.
  DEVICE void decode() {
    u32 chunk = id;
    for (ChunkRef ref = own_ref; ref.len > 0; ref = job.table.ref(chunk)) {
      u32 status = decode_chunk<XOR>(job.slab, ref, *this);
      if (own) {
        if (!status && ref.samples > 0 && (outside || latest > job.latest(id))) status = kOutside;
        if (status) atomic_min(job.fault, job.fault_base + (u64)id * 256 + status);
        own = false;
      }
      chunk += 32;
      if (status || k >= upto || chunk / 32 == job.first[tile + 1]) break;
    }
    while (k < upto) close();
  }
};

// Computes the ranges of this thread's chunk. Returns whether that is all: where out.failed() says that
// it does not do, another goes through them again.
template <class Job, class Out>
DEVICE bool fuse(const Job& job, Out&& out) {
  Fuse<Job, Out> f(job, out);
  if (!f.finds()) return true;
  f.decode();
  if (out.failed()) return false;
  out.finish(f.tile);
  return true;
}
