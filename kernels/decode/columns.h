// Chunks of series to columns, for the window kernels.
#pragma once
#include "../abi/packed.h"
#include "chunk.h"
#include "table.h"

// What decode_series and decode_mixed are given: `count` chunks in a slab, and where their
// columns go. rows[k] is the row that tile k begins at, unless packed[k] says that it is not to be
// decoded. With `drop` stale markers are left out. A corrupt chunk lowers *fault to fault_base + 256 times its number + its status.
#define DECODE_PARAMETERS                                                                                               \
  const u8 *__restrict__ slab, const Entry *__restrict__ entries, const SeriesChunk *__restrict__ wide, i64 since,      \
      u32 count, const u64 *__restrict__ rows, const PackedWord *__restrict__ packed, u64 *__restrict__ times,          \
      u64 *__restrict__ values, Decoded *__restrict__ chunks, Flag drop, u64 *__restrict__ fault, u64 fault_base

// The places of one chunk's samples in its tile.
struct SeriesColumn {
  u64* times;
  u64* values;
  bool drop;
  u32 stored;
  u64 begin, end;
  double last;  // stored
  u32 falls;
  DEVICE bool operator()(u32 i, u64 t, u64 v) {
    if (i == 0) begin = t;
    end = t;
    if (drop && v == kStaleMarker) return true;
    store_streaming(times + (u64)stored * 32, t);
    store_streaming(values + (u64)stored * 32, v);
    if (as_double(v) < last && stored > 0) falls = falls ? kFallsOften : stored;
    last = as_double(v);
    stored++;
    return true;
  }
};

// Decodes the chunk of this thread, if there is one.
template <bool mixed>
DEVICE void decode_columns(DECODE_PARAMETERS) {
  u32 id = block_x() * threads_x() + thread_x();
  if (id >= count || packed[id / 32]) return;
  Table table{entries, wide, since};
  u64 at = rows[id / 32] * 32 + id % 32;
  SeriesColumn column{times + at, values + at, drop != 0, 0, 0, (u64)table.range(id).to, 0, 0};
  ChunkRef ref = table.ref(id);
  u32 status = decode_either<mixed>(slab, ref, column);
  if (!status && (ref.samples & (kXOR2 - 1)) && !table.includes(id, (i64)column.begin, (i64)column.end)) status = kOutside;
  if (status) atomic_min(fault, fault_base + (u64)id * 256 + status);
  chunks[id] = Decoded{(i64)column.end, column.stored, column.falls};
}
