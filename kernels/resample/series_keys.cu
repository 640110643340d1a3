// series_keys: the keys of a batch's samples, or of the differences between them, as a row a series.
//
// Computes: keys[row+i] = sort_key of the value of sample i of the series, counted over its chunks in the
//   batch; of differences, of its value less that of the sample before. row is as KeyRows has it.
// Grid: x tiles of 32 series; y parts of their tiles of chunks; a block of 32 by 4 threads.
// A warp owns some neighbouring tiles of chunks. 16 rows of samples at a time it turns in shared memory, to
//   store 128 bytes of one series after the other.
// Bytes per sample: reads 2 to 8, writes 8. Reads 8 a chunk for each warp that owns later ones.
// Operations per sample: 25.
#include "../window/walker.h"
#include "order.h"

const u32 kKeysWarps = 4;   // of a block; mirrors abi.KeysWarps
const u32 kTurned = 16;  // samples of each series that are turned at once

// Loads the values of samples from i on, a stored T each, for which there is room.
template <class T>
DEVICE void load_values(const Walker& w, u32 i, T (&stored)[kTurned]) {
  const T* at = (const T*)w.values + (u64)i * 32;
  u32 last = w.n - 1 - i;
  UNROLL for (u32 j = 0; j < kTurned; j++) stored[j] = at[(j < last ? j : last) * 32];
}

// Makes the keys of samples from i on, of which there is one at least.
struct KeyMaker {
  bool differences;
  double before;  // the value of the sample before

  DEVICE void put(double v, u64* to) {
    double d = v < before ? v : v - before;  // a counter that falls began anew at 0
    before = v;
    *to = sort_key(differences ? d : v);
  }

  template <class T>
  DEVICE void make(const Walker& w, u32 i, u64* to) {
    T stored[kTurned];
    load_values(w, i, stored);
    double unit = 1, inverse = 1;
    if (w.kind & kDecimals) unit = w.chunk->unit, inverse = w.chunk->inverse;
    UNROLL for (u32 j = 0; j < kTurned; j++) {
      double v = (double)stored[j];
      if (sizeof(T) < 8) v = w.base + v;
      if (sizeof(T) < 8 && w.kind & kDecimals) v = of_decimal(v, unit, inverse);
      if (i + j < w.n) put(v, to + j);
    }
  }
};

KERNEL MAX_THREADS(128) series_keys(COLUMNS_PARAMETERS, Flag differences, const u64* __restrict__ key_rows, u64* __restrict__ keys) {
  SHARED u64 all_turned[kKeysWarps][32][kTurned + 1];
  SHARED u32 all_ranks[kKeysWarps][32], all_counts[kKeysWarps][32];
  Columns c = COLUMNS;
  u32 lane = thread_x(), tile = block_x(), warp = thread_y();
  if (tile >= tiles) return;
  u64(*turned)[kTurned + 1] = all_turned[warp];
  u32 *ranks = all_ranks[warp], *counts = all_counts[warp];
  u32 begin = first[tile], end = first[tile + 1], parts = blocks_y() * kKeysWarps;
  u32 length = (end - begin + parts - 1) / parts, from = begin + (block_y() * kKeysWarps + warp) * length;
  if (from + length < end) end = from + length;
  u32 rank = 0;  // samples in the chunks before
  for (u32 k = begin; k < from && k < end; k++) rank += c.samples(k, lane);
  KeyMaker made{differences != 0, 0};
  for (u32 k = from, n = 0; made.differences && k > begin && k < end && n == 0;) {
    k--;
    Walker w = entered(c, lane, k, k + 1);
    n = w.n;
    if (n > 0) made.before = value(w, n - 1);
  }
  KeyRows rows_of{key_rows};
  u64 row = rows_of.at(tile * 32), pitch = rows_of.at(tile * 32 + 1) - row;
  u32 half = lane / kTurned, j = lane % kTurned;
  for (u32 k = from; k < end; k++) {
    Walker w = entered(c, lane, k, k + 1);
    warp_barrier();  // all have read what is there
    ranks[lane] = rank;
    counts[lane] = w.n;
    rank += w.n;
    warp_barrier();
    u32 most = 0;
    for (u32 l = 0; l < 32; l++) most = counts[l] > most ? counts[l] : most;
    for (u32 i = 0; i < most; i += kTurned) {
      if (i < w.n) {
        switch (w.kind & kValuesOf) {
          case kWhole: made.make<double>(w, i, turned[lane]); break;
          case kHalf: made.make<u32>(w, i, turned[lane]); break;
          default: made.make<unsigned short>(w, i, turned[lane]);
        }
      }
      warp_barrier();
      UNROLL for (u32 s = 0; s < 32; s += 32 / kTurned) {
        u32 l = s + half;
        if (i + j < counts[l]) store_streaming(keys + row + l * pitch + ranks[l] + i + j, turned[l][j]);
      }
      warp_barrier();
    }
  }
}
