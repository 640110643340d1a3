// Encoded chunks as the host describes them: mirrored by chunk.go.
#pragma once
#include "compiler.h"

// A chunk in a slab: the unit of work of one thread. Mirrors abi.ChunkRef.
struct ChunkRef {
  u64 off;      // of its first byte in the slab, a multiple of 8
  u32 len;      // bytes, below 2^28; the slab is readable up to the next multiple of 8
  u32 samples;  // that its header states
};

// What a thread reports of its chunk. Mirrors abi.Status.
const u32 kTruncated = 1;  // the stream ends before the last sample
const u32 kBadNumber = 2;  // a time of more than 64 bits
const u32 kBackwards = 3;  // timestamps do not increase
const u32 kOutside = 4;    // they are not in the chunk's stated time range
const u32 kStale = 256;    // a flag: a stale marker is among the values

const u64 kStaleMarker = 0x7ff0000000000002ull;

// A chunk of a series in a slab. Mirrors abi.SeriesChunk.
struct SeriesChunk {
  ChunkRef ref;  // the number of samples with kXOR2 added where it is such a chunk
  i64 from, to;  // its stated time range in ms, both ends included
};

const u32 kXOR2 = 1u << 16;

// 16 bytes per chunk. If kWide is set, an index into `wide`, which holds the full 32 bytes.
// Mirrors abi.Entry, which has a picture.
struct Entry {
  u64 where;  // 44 bits of off/8, 12 of len, 8 of samples; or the index of the SeriesChunk
  u64 when;   // 35 bits of from, after `since`, 27 of to - from, whether it is an XOR2 chunk, kWide
};

const u64 kWide = 1ull << 63;
