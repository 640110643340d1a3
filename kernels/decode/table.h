// Where the chunks of a batch are, and what times they state.
#pragma once
#include "../abi/chunk.h"

// A time range in ms, both ends included.
struct Times {
  i64 from, to;
};

// The table of a batch's chunks.
struct Table {
  const Entry* __restrict__ entries;
  const SeriesChunk* __restrict__ wide;  // those that do not fit into entries
  i64 since;                             // ms

  DEVICE ChunkRef ref(u32 id) const {
    Entry e = entries[id];
    if (e.when & kWide) return wide[e.where].ref;
    u32 xor2 = (u32)(e.when >> 62) * kXOR2;
    return ChunkRef{(e.where & 0xfffffffffffull) * 8, (u32)(e.where >> 44) & 0xfff, (u32)(e.where >> 56) | xor2};
  }

  // The chunk's stated range.
  DEVICE Times range(u32 id) const {
    Entry e = entries[id];
    if (e.when & kWide) return Times{wide[e.where].from, wide[e.where].to};
    i64 from = since + (i64)(e.when & 0x7ffffffffull);
    return Times{from, from + (i64)(e.when >> 35 & 0x7ffffff)};
  }

  // Whether times lie in it.
  DEVICE bool includes(u32 id, i64 begin, i64 end) const {
    Times stated = range(id);
    return begin >= stated.from && end <= stated.to;
  }
};
