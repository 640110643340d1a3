// Decoding of one chunk. Chunk formats are types with
//   decode(slab, chunk, sink, far)
// which hands each sample to sink(i, t, value bits), until that returns false, and returns
// the chunk's status. That the stream is too short is noticed behind it: until then samples
// are whatever comes of its last word. far says that times should be looked at with Wraps.
#pragma once
#include "xor.h"
#include "xor2.h"

// Notices where times leave the range of 64 bits.
struct Wraps {
  i64 last;
  bool found;
  DEVICE bool operator()(u32 i, u64 t, u64) {
    found = found || (i > 0 && (i64)t < last);
    last = (i64)t;
    return true;
  }
};

// Whether the times of a chunk, which is good otherwise, leave the range of 64 bits.
template <class Format>
NOINLINE bool wraps(const u8* slab, const ChunkRef& c) {
  Wraps w{0, false};
  bool far;
  Format::decode(slab, c, w, far);
  return w.found;
}

// Decodes a chunk of a format and returns its status.
template <class Format, class Sink>
DEVICE u32 decode_chunk(const u8* slab, const ChunkRef& c, Sink& sink) {
  bool far;
  u32 status = Format::decode(slab, c, sink, far);
  return !status && far && wraps<Format>(slab, c) ? kBackwards : status;
}

// Decodes a chunk of a series: an XOR chunk, or, if mixed, of the format that it says.
template <bool mixed, class Sink>
DEVICE u32 decode_either(const u8* slab, ChunkRef ref, Sink& sink) {
  bool second = mixed && ref.samples & kXOR2;
  ref.samples &= kXOR2 - 1;
  return second ? decode_chunk<XOR2>(slab, ref, sink) : decode_chunk<XOR>(slab, ref, sink);
}
