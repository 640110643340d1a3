// decode_series: the XOR chunks of series to columns, for the window kernels.
//
// Grid: one thread a chunk, blocks of 128.
// A thread owns its chunk. 32 neighbouring chunks are a tile: those of 32 series at
// one position. A chunk of no samples stands for a series that has fewer chunks
// than others of its tile.
// Reads and writes as decode_xor does, and a Decoded (16 bytes) a chunk. With `drop`
// stale markers are left out: the samples behind them move up.
// A corrupt chunk lowers *fault to fault_base + 256 times its number + its status.
#include "series.h"
#include "xor.h"

// The places of one chunk's samples in its tile.
struct Packed {
  u64* times;
  u64* values;
  bool drop;
  u32 kept;
  u64 end;
  DEVICE void operator()(u32, u64 t, u64 v) {
    end = t;
    if (drop && v == kStaleMarker) return;
    store_streaming(times + (u64)kept * 32, t);
    store_streaming(values + (u64)kept * 32, v);
    kept++;
  }
};

KERNEL MAX_THREADS(128) decode_series(const u8* __restrict__ slab, const ChunkRef* __restrict__ refs, u32 count,
                                      const u64* __restrict__ rows, u64* __restrict__ times, u64* __restrict__ values,
                                      Decoded* __restrict__ chunks, u32 drop, u64* __restrict__ fault, u64 fault_base) {
  u32 id = block_x() * threads_x() + thread_x();
  if (id >= count) return;
  u64 at = rows[id / 32] * 32 + id % 32;
  Packed column{times + at, values + at, drop != 0, 0, kNever};
  u32 status = decode_chunk(slab, refs[id], column) & (kStale - 1);
  if (status) atomic_min(fault, fault_base + (u64)id * 256 + status);
  chunks[id] = Decoded{(i64)column.end, column.kept, 0};
}
