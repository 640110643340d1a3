// Decoding of the chunks of series to columns, for the window kernels.
#pragma once
#include "series.h"
#include "xor2.h"

// A chunk of a series in a slab. Mirrors kernels.SeriesChunk.
struct SeriesChunk {
  ChunkRef ref;    // the number of samples with kXOR2 added where it is such a chunk
  i64 from, to;    // its stated time range in ms, both ends included
};

const u32 kXOR2 = 1u << 16;

// The places of one chunk's samples in its tile.
struct Packed {
  u64* times;
  u64* values;
  bool drop;
  u32 kept;
  u64 begin, end;
  double last;  // kept
  bool falls;
  DEVICE void operator()(u32 i, u64 t, u64 v) {
    if (i == 0) begin = t;
    end = t;
    if (drop && v == kStaleMarker) return;
    store_streaming(times + (u64)kept * 32, t);
    store_streaming(values + (u64)kept * 32, v);
    if (as_double(v) < last && kept > 0) falls = true;
    last = as_double(v);
    kept++;
  }
};

// Decodes chunk `id`, if there is one.
template <bool mixed>
DEVICE void decode_packed(u32 id, const u8* slab, const SeriesChunk* refs, u32 count, const u64* rows, u64* times, u64* values,
                          Decoded* chunks, u32 drop, u64* fault, u64 fault_base) {
  if (id >= count) return;
  u64 at = rows[id / 32] * 32 + id % 32;
  Packed column{times + at, values + at, drop != 0, 0, 0, kNever, 0, false};
  ChunkRef ref = refs[id].ref;
  bool second = mixed && ref.samples & kXOR2;
  ref.samples &= kXOR2 - 1;
  u32 status = (second ? decode_chunk2(slab, ref, column) : decode_chunk(slab, ref, column)) & (kStale - 1);
  if (!status && ref.samples && ((i64)column.begin < refs[id].from || (i64)column.end > refs[id].to)) status = kOutside;
  if (status) atomic_min(fault, fault_base + (u64)id * 256 + status);
  chunks[id] = Decoded{(i64)column.end, column.kept, column.falls};
}
