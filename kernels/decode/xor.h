// The decoder of one XOR chunk, as Prometheus writes them (tsdb/chunkenc/xor.go):
// two bytes of sample count; the first timestamp as a varint and the first value
// in 64 bits; the first distance as an uvarint; from then on how the distance
// between timestamps changed (0, or 10, 110, 1110, 1111 and 14, 17, 20, 64 bits)
// and how the value did (0; 10 and the bits that differ, where they last did; 11,
// 5 bits of leading zeros, 6 of length, and that many).
#pragma once
#include "../abi/chunk.h"

// A window on the bit stream, which lies in hi:lo from bit `off` on. Two words
// more are loaded ahead and left as they came until they move up: touching a
// word makes the whole warp wait for it.
struct Bits {
  const u64* __restrict__ words;
  u32 next, last;  // the next word to load, and the last there is
  u64 hi, lo;
  u64 ahead, behind;  // raw
  u32 off;            // 0 to 63
  u32 end;            // of the stream, in bits from its first word
};

// The bits to the end of the stream; negative beyond it.
DEVICE i32 left(const Bits& b) { return (i32)(b.end - ((b.next - 4) * 64 + b.off)); }

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
  b.end = c.len * 8;
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
  if (b.off >= 64) {
    b.off -= 64;
    b.hi = b.lo;
    b.lo = __builtin_bswap64(b.ahead);
    b.ahead = b.behind;
    b.behind = load_word(b);
  }
}

// Reads an unsigned varint of at most 64 bits. Returns a status.
DEVICE u32 read_uvarint(Bits& b, u64& v) {
  v = 0;
  for (u32 i = 0; i < 10; i++) {
    u32 byte, rest;
    peek(b, byte, rest);
    byte >>= 24;
    skip(b, 8);
    if (left(b) < 0) return kTruncated;
    v |= (u64)(byte & 127) << (7 * i);
    if (byte < 128) return i < 9 || byte < 2 ? 0 : kBadNumber;
  }
  return left(b) >= 8 ? kBadNumber : kTruncated;
}

// Reads the first sample: a zigzag varint of its time, and 64 bits of its value.
DEVICE u32 read_first(Bits& b, u64& t, u64& v) {
  u32 status = read_uvarint(b, t);
  if (status) return status;
  t = t >> 1 ^ (0 - (t & 1));
  v = peek64(b);
  skip(b, 64);
  return left(b) < 0 ? kTruncated : 0;
}

// Reads the distance of the second sample.
DEVICE u32 read_distance(Bits& b, u64& delta) {
  u32 status = read_uvarint(b, delta);
  return status ? status : (i64)delta <= 0 ? kBackwards : 0;
}

// The bits of a value that change: so many, and the zeros behind them. If they are
// more than a value has, which no encoder writes, none change.
struct Range {
  u32 size;
  i32 trail;
};

// The range that the 11 bits at the top of w describe.
DEVICE Range new_range(u32 w) {
  u32 size = w >> 21 & 63;
  if (size == 0) size = 64;
  return Range{size, 64 - (i32)(w >> 27) - (i32)size};
}

// Reads how a value changes.
DEVICE u64 read_bits(Bits& b, const Range& r) {
  u64 change = peek64(b) >> (64 - r.size) << (r.trail & 63);
  skip(b, r.size);
  return r.trail < 0 ? 0 : change;
}

// Whether times might leave the range of 64 bits: they can only with a first time or a
// distance that is far.
DEVICE bool far_time(u64 t) { return (t ^ (u64)((i64)t >> 63)) >> 62 != 0; }
DEVICE bool far_distance(u64 delta) { return delta >> 46 != 0; }

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

// The format of XOR chunks, for decode_chunk.
struct XOR {
  template <class Sink>
  DEVICE static u32 decode(const u8* slab, const ChunkRef& c, Sink& sink, bool& far) {
    far = false;
    if (c.samples == 0) return 0;
    if (c.len <= 2) return kTruncated;
    Bits b;
    open_bits(b, slab, c);
    u64 t, v, delta = 0;
    u32 status = read_first(b, t, v);
    if (status) return status;
    if (!sink(0, t, v) || c.samples == 1) return 0;

    status = read_distance(b, delta);
    if (status) return status;
    far = far_time(t) || far_distance(delta);
    Range range{64, 0};  // in which the value last changed
    u32 step = 0;        // the bit of an unchanged distance; the second sample has none
    for (u32 i = 1;;) {
      u32 upper, lower;
      peek(b, upper, lower);
      if (step & upper >> 31) {
        delta += (u64)read_change(b, upper, lower);
        if ((i64)delta <= 0) return left(b) < 0 ? kTruncated : kBackwards;
        far |= far_distance(delta);
        peek(b, upper, lower);
        step = 0;
      }
      t += delta;
      upper = funnel(upper, lower, step);
      bool changed = upper >> 31;
      bool moved = upper >> 30 == 3;
      if (moved) range = new_range(upper << 2);
      skip(b, step + (moved ? 13 : changed ? 2 : 1));
      if (changed) v ^= read_bits(b, range);
      if (!sink(i, t, v) || ++i == c.samples) return left(b) < 0 ? kTruncated : 0;
      step = 1;
    }
  }
};
