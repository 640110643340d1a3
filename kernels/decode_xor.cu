// decode_xor: XOR chunks to columns of timestamps and values.
//
// Grid: one thread a chunk, blocks of 128.
// A thread owns its chunk. 32 neighbouring chunks are a tile, and a tile's
// columns lie transposed: row i holds sample i of all 32, so that a warp stores
// 256 bytes in one go. rows[k] is the row that tile k begins at.
// Reads the chunk table (16 bytes a chunk) and the chunks' bytes, once.
// Writes times (ms) and values, 16 bytes a sample, and a status a chunk. Places
// of a tile behind the last sample of a shorter chunk are left as they are, and
// so is what follows the place where a chunk turns out to be corrupt.
// With chunks of 120 samples in 3 bytes each: 19 bytes of traffic a sample.
#include "xor.h"

// The places of one chunk's samples in its tile.
struct Column {
  u64* times;
  u64* values;
  DEVICE bool operator()(u32 i, u64 t, u64 v) {
    store_streaming(times + (u64)i * 32, t);
    store_streaming(values + (u64)i * 32, v);
    return true;
  }
};

KERNEL MAX_THREADS(128) decode_xor(const u8* __restrict__ slab, const ChunkRef* __restrict__ chunks, u32 count,
                                   const u64* __restrict__ rows, u64* __restrict__ times, u64* __restrict__ values,
                                   u32* __restrict__ status) {
  u32 id = block_x() * threads_x() + thread_x();
  if (id >= count) return;
  u64 at = rows[id / 32] * 32 + id % 32;
  Column column{times + at, values + at};
  status[id] = decode_chunk(slab, chunks[id], column);
}
