// The decoder of one XOR2 chunk. Behind the number of samples, in two bytes, there is
// a byte about start timestamps, which are passed over: bit 7 says that the first
// sample has one, and the lower 7 bits, unless they are 0, from which sample on the
// others do. The stream:
//   first sample   time (varint), value (64 bits), how long ago it started (varint)
//   second sample  distance (uvarint), value code
//   any other      a code of both. Without a change of the distance: 0 the value
//                  repeated, 100 and 101 as the value codes 10 and 110, 11111 a stale
//                  marker. With one: 110, 1110 or 11110, the change in 13, 20 or 64
//                  bits, value code
//   value code     0 repeated; 10 and the bits that differ, where they last did; 110,
//                  5 bits of leading zeros, 6 of length, and that many; 111 a stale
//                  marker, which is not what the next value differs from
//   start          ones, of which eight are the most, a zero if they are fewer, and
//                  as many bits as start_bits says in all
#pragma once
#include "xor.h"

// The bits of a start timestamp that begins with so many ones.
DEVICE u32 start_bits(u32 ones) {
  switch (ones) {
    case 0: return 1;
    case 1: return 2 + 3;
    case 2: return 3 + 6;
    case 3: return 4 + 9;
    case 4: return 5 + 12;
    case 5: return 6 + 18;
    case 6: return 7 + 25;
    case 7: return 8 + 56;
    default: return 8 + 64;
  }
}

DEVICE void skip_start(Bits& b) {
  u32 upper, lower;
  peek(b, upper, lower);
  u32 ones = 0;
  while (ones < 8 && upper << ones >> 31) ones++;
  u32 size = start_bits(ones);
  skip(b, 8 < size ? 8 : size);
  if (size > 8) skip(b, size - 8);
}

// Reads what comes before the value code of a sample with index 2 or above, unless
// it is one with it: the code of the distance and its change.
DEVICE void read_distance_code(Bits& b, u32 upper, u64& delta) {
  if (upper >> 29 == 6) {
    delta += (u64)((i64)(i32)(upper << 3) >> 19);
    skip(b, 16);
  } else if (upper >> 28 == 14) {
    delta += (u64)((i64)(i32)(upper << 4) >> 12);
    skip(b, 24);
  } else {
    skip(b, 5);
    delta += peek64(b);
    skip(b, 64);
  }
}

// The format of XOR2 chunks, for decode_chunk.
struct XOR2 {
  template <class Sink>
  DEVICE static u32 decode(const u8* slab, const ChunkRef& c, Sink& sink, bool& far) {
    far = false;
    if (c.samples == 0) return 0;
    if (c.len <= 3) return kTruncated;
    Bits b;
    open_bits(b, slab, c);
    u32 starts = (u32)(peek64(b) >> 56);
    skip(b, 8);
    u64 t, v, delta = 0;
    u32 status = read_first(b, t, v);
    if (status) return status;
    if (starts & 128) {
      u64 ignored;
      status = read_uvarint(b, ignored);
      if (status) return status;
    }
    starts &= 127;
    if (starts == 0) starts = c.samples;
    if (!sink(0, t, v) || c.samples == 1) return 0;
    if (v == kStaleMarker) v = 0;

    status = read_distance(b, delta);
    if (status) return status;
    far = far_time(t) || far_distance(delta);
    Range range{64, 0};  // in which the value last changed
    for (u32 i = 1;;) {
      u32 upper, lower;
      peek(b, upper, lower);
      u32 code = upper >> 29;  // a value code in three bits
      if (i > 1 && code >= 4) {
        if (code <= 5) {
          code = code == 4 ? 4 : 6;
          skip(b, code == 4 ? 1 : 0);
        } else if (upper >> 27 == 31) {
          code = 7;
          skip(b, 2);
        } else {
          read_distance_code(b, upper, delta);
          if ((i64)delta <= 0) return left(b) < 0 ? kTruncated : kBackwards;
          far |= far_distance(delta);
          peek(b, upper, lower);
          code = upper >> 29;
        }
      }
      t += delta;
      u64 now = v;
      if (code < 4) {
        skip(b, 1);
      } else if (code == 7) {
        skip(b, 3);
        now = kStaleMarker;
      } else {
        skip(b, code == 6 ? 3 : 2);
        if (code == 6) {
          peek(b, upper, lower);
          range = new_range(upper);
          skip(b, 11);
        }
        v ^= read_bits(b, range);
        now = v;
      }
      if (i >= starts) skip_start(b);
      if (!sink(i, t, now) || ++i == c.samples) return left(b) < 0 ? kTruncated : 0;
    }
  }
};
