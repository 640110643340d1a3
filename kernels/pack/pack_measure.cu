// pack_measure: how tiles of decoded chunks are packed, see ../abi/packed.h.
//
// Computes: for each tile of chunks that is not packed, packs[32*tile+lane] = the chunk of each lane but
//   for its samples, and words[tile] = the tile's kind and rows as in its word, and its bytes in the
//   place of the address; 0 where times span more than 32 bits.
// Grid: x four tiles of chunks, a block of 128 threads.
// A thread owns a chunk. It looks for the least power of ten by which all values become integers, at
//   most 10^6; a warp takes the widest that one of its chunks needs.
// Bytes per sample: reads 16, and 8 more for each power that it tries, mostly from a cache. Writes 48
//   a chunk.
// Operations per sample: 10, and 12 for each power.
#include "../abi/packed.h"

const u32 kMostDecimals = 6;
const double kIntegers = 4503599627370496.0;  // 2^52

// Tries the unit of chunk c; returns whether its values are integers of it.
DEVICE bool in_units(PackedChunk& c, const double* values, u32 n, double& most) {
  c.base = 0;
  most = 0;
  for (u32 i = 0; i < n; i++) {
    double v = values[i * 32], d = __builtin_rint(v * c.unit);
    if (!(__builtin_fabs(d) < kIntegers)) return false;
    double back = c.unit == 1 ? d : of_decimal(d, c.unit, c.inverse);
    if (as_bits(back + 0.0) != as_bits(v)) return false;  // -0 is none
    if (i == 0 || d < c.base) c.base = d;
    if (i == 0 || d > most) most = d;
  }
  return true;
}

KERNEL MAX_THREADS(128) pack_measure(u32 count, const u64* __restrict__ rows, const PackedWord* __restrict__ packed,
                                     const Decoded* __restrict__ chunks, const i64* __restrict__ times,
                                     const double* __restrict__ values, PackedChunk* __restrict__ packs,
                                     PackedWord* __restrict__ words) {
  u32 id = block_x() * threads_x() + thread_x();
  bool mine = id < count && !packed[id / 32];
  PackedChunk c{0, 0, 0, 1, 0, 0, 0, 1, 1};
  u64 need[4] = {kRegular, 0, 0, 0};  // times; bytes of values; whether in decimals; rows
  if (mine) {
    Decoded chunk = chunks[id];
    u64 at = rows[id / 32] * 32 + id % 32;
    u32 n = chunk.samples;
    const i64* t = times + at;
    c.samples = n;
    c.falls = (unsigned short)chunk.falls;
    c.begin = n > 0 ? t[0] : chunk.end;
    u64 span = (u64)chunk.end - (u64)c.begin;
    c.span = (u32)span;
    if (span >> 32) need[0] = kTimesOf;
    if (n > 1) {  // the first or the last distance is no gap
      u64 head = (u64)(t[32] - t[0]), tail = (u64)(t[(u64)(n - 1) * 32] - t[(u64)(n - 2) * 32]);
      c.every = (u32)(head < tail ? head : tail);
    }
    for (u32 i = 1; i < n; i++) {
      if (c.every > 0 && t[(u64)i * 32] - t[(u64)(i - 1) * 32] == c.every) continue;
      if (need[0] < kAfterFirst) need[0] = kAfterFirst;
      if (c.gap > 0) {
        c.every = 0;
        break;
      }
      c.gap = (unsigned short)i;
    }
    double most = 0;
    bool fits = in_units(c, values + at, n, most);
    for (u32 e = 1; e <= kMostDecimals && !fits; e++) {
      c.unit *= 10;
      c.inverse = 1 / c.unit;
      fits = in_units(c, values + at, n, most);
    }
    double range = most - c.base;
    need[1] = !fits || range > 4294967295.0 ? 8 : range > 65535 ? 4 : 2;
    if (need[1] == 8) {
      c.base = 0;
      c.unit = c.inverse = 1;
    }
    need[2] = c.unit != 1;
    need[3] = n;
  }
  for (u32 other = 16; other > 0; other /= 2) {
    u64 got[4];
    shuffle_xor(need, got, other);
    UNROLL for (u32 k = 0; k < 4; k++) need[k] = need[k] < got[k] ? got[k] : need[k];
  }
  if (!mine) return;
  packs[id] = c;
  if (id % 32) return;
  u32 kind = (u32)need[0] | (need[1] == 8 ? kWhole : need[1] == 4 ? kHalf : kQuarter);
  // Of a tile with a chunk whose values are whole no value has a unit.
  if (need[2] && need[1] < 8) kind |= kDecimals;
  words[id / 32] = need[0] == kTimesOf ? 0 : need[3] << 48 | packed_bytes(kind, (u32)need[3]) << 8 | kind;
}
