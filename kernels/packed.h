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

// A SeriesChunk in half the bytes, or where it is. Mirrors kernels.Entry.
struct Entry {
  u64 where;  // 35 bits of off/8, 13 of len, 16 of samples; or the number of the SeriesChunk
  u64 when;   // 35 bits of from, after `since`, 27 of to - from, whether it is an XOR2 chunk, kWide
};

const u64 kWide = 1ull << 63;

// The table of a batch's chunks.
struct Table {
  const Entry* __restrict__ entries;
  const SeriesChunk* __restrict__ wide;  // those that do not fit into entries
  i64 since;                             // ms

  DEVICE ChunkRef ref(u32 id) const {
    Entry e = entries[id];
    if (e.when & kWide) return wide[e.where].ref;
    u32 xor2 = (u32)(e.when >> 62) * kXOR2;
    return ChunkRef{(e.where & 0x7ffffffffull) * 8, (u32)(e.where >> 35) & 0x1fff, (u32)(e.where >> 48) | xor2};
  }

  // The chunk's stated range, both ends included, in ms.
  DEVICE void range(u32 id, i64& from, i64& to) const {
    Entry e = entries[id];
    if (e.when & kWide) {
      from = wide[e.where].from;
      to = wide[e.where].to;
      return;
    }
    from = since + (i64)(e.when & 0x7ffffffffull);
    to = from + (i64)(e.when >> 35 & 0x7ffffff);
  }

  // Whether times lie in it.
  DEVICE bool includes(u32 id, i64 begin, i64 end) const {
    i64 from, to;
    range(id, from, to);
    return begin >= from && end <= to;
  }
};

// What the decoding kernels of series are given: `count` chunks in a slab, where their
// columns go, and what else decode_series says.
#define SERIES_PARAMETERS                                                                                               \
  const u8 *__restrict__ slab, const Entry *__restrict__ entries, const SeriesChunk *__restrict__ wide, i64 since,      \
      u32 count, const u64 *__restrict__ rows, u64 *__restrict__ times, u64 *__restrict__ values,                       \
      Decoded *__restrict__ chunks, u32 drop, u64 *__restrict__ fault, u64 fault_base

// The places of one chunk's samples in its tile.
struct Packed {
  u64* times;
  u64* values;
  bool drop;
  u32 kept;
  u64 begin, end;
  double last;  // kept
  bool falls;
  DEVICE bool operator()(u32 i, u64 t, u64 v) {
    if (i == 0) begin = t;
    end = t;
    if (drop && v == kStaleMarker) return true;
    store_streaming(times + (u64)kept * 32, t);
    store_streaming(values + (u64)kept * 32, v);
    if (as_double(v) < last && kept > 0) falls = true;
    last = as_double(v);
    kept++;
    return true;
  }
};

// Decodes the chunk of this thread, if there is one.
template <bool mixed>
DEVICE void decode_packed(SERIES_PARAMETERS) {
  u32 id = block_x() * threads_x() + thread_x();
  if (id >= count) return;
  Table table{entries, wide, since};
  u64 at = rows[id / 32] * 32 + id % 32;
  Packed column{times + at, values + at, drop != 0, 0, 0, kNever, 0, false};
  ChunkRef ref = table.ref(id);
  bool second = mixed && ref.samples & kXOR2;
  ref.samples &= kXOR2 - 1;
  u32 status = (second ? decode_chunk2(slab, ref, column) : decode_chunk(slab, ref, column)) & (kStale - 1);
  if (!status && ref.samples && !table.includes(id, (i64)column.begin, (i64)column.end)) status = kOutside;
  if (status) atomic_min(fault, fault_base + (u64)id * 256 + status);
  chunks[id] = Decoded{(i64)column.end, column.kept, column.falls};
}
