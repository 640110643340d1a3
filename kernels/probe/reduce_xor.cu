// reduce_xor: XOR chunks to two numbers each, stored nowhere in between. It shows how fast
// decoding is when nothing has to be written.
//
// Computes: sums[c] = the sum of chunk c's times, and that of its values.
// Grid: one thread a chunk, blocks of 128.
// A thread owns its chunk.
// Bytes per sample, with chunks of 120 samples in 3 bytes each: 3.3: reads the chunk and its
//   entry of the table (16); writes a ChunkSums (16) and a status (4) a chunk.
// Operations per sample: about 100, nearly all of them integers, to read two codes.
#include "../decode/chunk.h"

// Mirrors abi.ChunkSums.
struct ChunkSums {
  u64 times;   // sum of the timestamps in ms, modulo 2^64
  double sum;  // of the values, added in their order
};

struct Adder {
  ChunkSums sums;
  u32 stale;
  DEVICE bool operator()(u32, u64 t, u64 v) {
    sums.times += t;
    sums.sum += as_double(v);
    if (v == kStaleMarker) stale = kStale;
    return true;
  }
};

KERNEL MAX_THREADS(128) reduce_xor(const u8* __restrict__ slab, const ChunkRef* __restrict__ chunks, u32 count,
                                   ChunkSums* __restrict__ sums, u32* __restrict__ status) {
  u32 id = block_x() * threads_x() + thread_x();
  if (id >= count) return;
  Adder adder{{0, 0}, 0};
  u32 bad = decode_chunk<XOR>(slab, chunks[id], adder);
  status[id] = bad ? bad : adder.stale;
  sums[id] = adder.sums;
}
