// The decoder of one XOR chunk, as Prometheus writes them (tsdb/chunkenc/xor.go):
// two bytes of sample count; the first timestamp as a varint and the first value
// in 64 bits; the first distance as an uvarint; from then on how the distance
// between timestamps changed (0, or 10, 110, 1110, 1111 and 14, 17, 20, 64 bits)
// and how the value did (0; 10 and the bits that differ, where they last did; 11,
// 5 bits of leading zeros, 6 of length, and that many).
#pragma once
#include "shim.h"

// A chunk in a slab: the unit of work of one thread. Mirrors kernels.ChunkRef.
struct ChunkRef {
  u64 off;      // of its first byte in the slab, a multiple of 8
  u32 len;      // bytes, below 2^28; the slab is readable up to the next multiple of 8
  u32 samples;  // that its header states
};

// What a thread reports of its chunk. Mirrors kernels.Status.
const u32 kTruncated = 1;  // the stream ends before the last sample
const u32 kBadBits = 2;    // not a valid encoding
const u32 kBackwards = 3;  // timestamps do not increase
const u32 kStale = 256;    // a flag: a stale marker is among the values

const u64 kStaleMarker = 0x7ff0000000000002ull;

// A window on the bit stream, which lies in hi:lo from bit `off` on. Two words
// more are loaded ahead and left as they came until they move up: touching a
// word makes the whole warp wait for it.
struct Bits {
  const u64* __restrict__ words;
  u32 next, last;  // the next word to load, and the last there is
  u64 hi, lo;
  u64 ahead, behind;  // raw
  u32 off;            // 0 to 63
  i32 left;           // bits to the end of the stream; negative beyond it
};

// Beyond the last word comes the last again: nothing is read outside the chunk.
DEVICE u64 load_word(Bits& b) {
  u32 i = b.next++;
  return b.words[i < b.last ? i : b.last];
}

// Opens a chunk of at least one byte behind its header.
DEVICE void open_bits(Bits& b, const u8* slab, const ChunkRef& c) {
  b.words = (const u64*)(slab + c.off);
  b.next = 0;
  b.last = (c.len - 1) / 8;
  b.hi = __builtin_bswap64(load_word(b));
  b.lo = __builtin_bswap64(load_word(b));
  b.ahead = load_word(b);
  b.behind = load_word(b);
  b.off = 16;
  b.left = (i32)(c.len * 8) - 16;
}

// The next 64 bits in two halves; what lies beyond the end is unspecified.
DEVICE void peek(const Bits& b, u32& upper, u32& lower) {
  bool half = b.off >= 32;
  u32 x = half ? (u32)b.hi : (u32)(b.hi >> 32);
  u32 y = half ? (u32)(b.lo >> 32) : (u32)b.hi;
  u32 z = half ? (u32)b.lo : (u32)(b.lo >> 32);
  upper = funnel(x, y, b.off);
  lower = funnel(y, z, b.off);
}

DEVICE u64 peek64(const Bits& b) {
  u32 upper, lower;
  peek(b, upper, lower);
  return (u64)upper << 32 | lower;
}

// Moves n bits on, at most 64.
DEVICE void skip(Bits& b, u32 n) {
  b.off += n;
  b.left -= (i32)n;
  if (b.off >= 64) {
    b.off -= 64;
    b.hi = b.lo;
    b.lo = __builtin_bswap64(b.ahead);
    b.ahead = b.behind;
    b.behind = load_word(b);
  }
}

// Reads an unsigned varint of at most 64 bits.
DEVICE bool read_uvarint(Bits& b, u64& v) {
  v = 0;
  for (u32 i = 0; i < 10; i++) {
    u32 byte, rest;
    peek(b, byte, rest);
    byte >>= 24;
    skip(b, 8);
    v |= (u64)(byte & 127) << (7 * i);
    if (byte < 128) return b.left >= 0 && (i < 9 || byte < 2);
  }
  return false;
}

// Reads how the distance changed, where it did: upper and lower are the next bits.
DEVICE i64 read_change(Bits& b, u32 upper, u32 lower) {
  if (upper >= 0xf0000000u) {
    skip(b, 4);
    i64 change = (i64)peek64(b);
    skip(b, 64);
    return change;
  }
  u32 head = upper >= 0xe0000000u ? 4 : upper >= 0xc0000000u ? 3 : 2;
  u32 size = 8 + 3 * head;  // 14, 17 or 20
  skip(b, head + size);
  // size bits stand for 1-2^(size-1) to 2^(size-1).
  u32 bits = funnel(upper, lower, head) >> (32 - size);
  return (i64)((i32)((bits - 1) << (32 - size)) >> (32 - size)) + 1;
}

// Decodes a chunk and hands each sample to sink(i, t, value bits). Returns the
// chunk's status.
template <class Sink>
DEVICE u32 decode_chunk(const u8* slab, const ChunkRef& c, Sink& sink) {
  if (c.samples == 0) return 0;
  if (c.len <= 2) return kTruncated;
  Bits b;
  open_bits(b, slab, c);
  u64 t, delta = 0;
  if (!read_uvarint(b, t)) return kTruncated;
  t = t >> 1 ^ (0 - (t & 1));
  u64 v = peek64(b);
  skip(b, 64);
  if (b.left < 0) return kTruncated;
  u32 stale = v == kStaleMarker ? kStale : 0;
  sink(0, t, v);
  if (c.samples == 1) return stale;

  if (!read_uvarint(b, delta)) return kTruncated;
  if ((i64)delta <= 0) return kBackwards;
  u32 size = 64;  // of the bits that differed when the value last changed
  i32 trail = 0;  // and the zeros behind them
  u32 step = 0;   // the bit of an unchanged distance; the second sample has none
  for (u32 i = 1;;) {
    u32 upper, lower;
    peek(b, upper, lower);
    if (step & upper >> 31) {
      delta += (u64)read_change(b, upper, lower);
      if (b.left < 0) return kTruncated;
      if ((i64)delta <= 0) return kBackwards;
      peek(b, upper, lower);
      step = 0;
    }
    t += delta;
    upper = funnel(upper, lower, step);
    bool changed = upper >> 31;
    bool moved = upper >> 30 == 3;
    if (moved) {
      u32 n = upper >> 19 & 63;
      size = n ? n : 64;
      trail = 64 - (i32)(upper >> 25 & 31) - (i32)size;
    }
    skip(b, step + (moved ? 13 : changed ? 2 : 1));
    if (changed) {
      v ^= peek64(b) >> (64 - size) << (trail & 63);
      skip(b, size);
      if (v == kStaleMarker) stale = kStale;
    }
    if ((b.left | trail) < 0) return b.left < 0 ? kTruncated : kBadBits;
    sink(i, t, v);
    if (++i == c.samples) return stale;
    step = 1;
  }
}
