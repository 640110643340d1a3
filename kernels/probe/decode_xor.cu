// decode_xor: XOR chunks to columns of times and values, and a status a chunk.
//
// Computes: times[(rows[c/32]+i)*32+c%32] = sample i of chunk c, and the same of values.
//   32 neighbouring chunks are a tile, and a tile's columns lie transposed: row i holds sample
//   i of all 32, so that a warp stores 256 bytes at once. rows[k] is the row that tile k
//   begins at. Places of a tile behind the last sample of a shorter chunk are left as they
//   are; those of a chunk that turns out to be corrupt mean nothing.
// Grid: one thread a chunk, blocks of 128.
// A thread owns its chunk.
// Bytes per sample, with chunks of 120 samples in 3 bytes each: reads 3.1, with the table (16
//   a chunk); writes 16.
// Operations per sample: about 100, nearly all of them integers, to read two codes.
#include "../decode/chunk.h"

// The places of one chunk's samples in its tile.
struct Column {
  u64* times;
  u64* values;
  u32 stale;
  DEVICE bool operator()(u32 i, u64 t, u64 v) {
    store_streaming(times + (u64)i * 32, t);
    store_streaming(values + (u64)i * 32, v);
    if (v == kStaleMarker) stale = kStale;
    return true;
  }
};

KERNEL MAX_THREADS(128) decode_xor(const u8* __restrict__ slab, const ChunkRef* __restrict__ chunks, u32 count,
                                   const u64* __restrict__ rows, u64* __restrict__ times, u64* __restrict__ values,
                                   u32* __restrict__ status) {
  u32 id = block_x() * threads_x() + thread_x();
  if (id >= count) return;
  u64 at = rows[id / 32] * 32 + id % 32;
  Column column{times + at, values + at, 0};
  u32 bad = decode_chunk<XOR>(slab, chunks[id], column);
  status[id] = bad ? bad : column.stale;
}
