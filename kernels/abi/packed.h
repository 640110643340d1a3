// Tiles of chunks in the form in which they stay on a device: mirrored by packed.go.
//
//	PackedChunk │ … 32 of them ║ times: rows × 32 ║ values: rows × 32
//
// Row i has sample i of each chunk, so a warp reads a row at once. How wide times and values are says
// the tile's word, for all of its chunks.
#pragma once
#include "series.h"

// A chunk of a packed tile: sample i is at begin + i*every ms, or at begin and what is stored, and its value
// is (base + u) / unit, u being what is stored. Where times are stored, those of one chunk may be regular
// nevertheless (gap is 0), or both before and from sample `gap` on; otherwise `every` is 0.
struct PackedChunk {
  i64 begin;  // ms, the time of its first sample
  double base;
  u32 span;  // ms, from there to what Decoded has as its end
  u32 every;
  u32 samples;
  unsigned short falls, gap;  // falls as Decoded has it
  double unit, inverse;  // a power of ten, and 1/unit
};

// The word of a tile of chunks: where it is, at a multiple of 256, and its kind, below; 16 bits of the
// number of its rows are above. 0 is that of a tile that is not packed.
typedef u64 PackedWord;

// How times are stored: as 8 bytes each, which no packed tile does; not at all, as they are regular; as
// 32 bits from the first.
const u32 kWholeTimes = 0, kRegular = 1, kAfterFirst = 2, kTimesOf = 3;
// How values are stored: whole, 8 bytes each, or as so many bits of an integer.
const u32 kWhole = 0, kHalf = 4, kQuarter = 8, kValuesOf = 12;
// Units of some chunks are not 1.
const u32 kDecimals = 16;

DEVICE u32 kind_of(PackedWord w) { return (u32)w & 0xff; }
DEVICE u32 rows_of(PackedWord w) { return (u32)(w >> 48); }
DEVICE const u8* tile_of(PackedWord w) { return (const u8*)(w << 16 >> 24 << 8); }

// Bytes of the time of a sample, and of its value.
DEVICE u32 time_bytes(u32 kind) {
  u32 times = kind & kTimesOf;
  return times == kRegular ? 0 : times == kAfterFirst ? 4 : 8;
}
DEVICE u32 value_bytes(u32 kind) {
  u32 values = kind & kValuesOf;
  return values == kQuarter ? 2 : values == kHalf ? 4 : 8;
}

// The bytes of a tile, a multiple of 64.
DEVICE u64 packed_bytes(u32 kind, u32 rows) {
  return 32 * sizeof(PackedChunk) + (u64)rows * 32 * (time_bytes(kind) + value_bytes(kind));
}

// The value of a stored integer: the quotient by the nearest reciprocal, corrected by what it leaves
// over, as seconds_of in ../window/extrapolate.h has it. Packing checks that it is the value.
DEVICE double of_decimal(double d, double unit, double inverse) {
  double q = d * inverse;
  return fused_multiply_add(fused_multiply_add(-q, unit, d), inverse, q);
}
