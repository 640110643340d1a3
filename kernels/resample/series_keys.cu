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

// The values of samples of a chunk from i on, behind the last one that one again.
struct Values {
  double v[kTurned];

  DEVICE Values(const Walker& w, u32 i) {
    switch (w.kind & kValuesOf) {
      case kWhole: load<double>(w, i, 0); break;
      case kHalf: load<u32>(w, i, w.base); break;
      default: load<unsigned short>(w, i, w.base);
    }
    if (!(w.kind & kDecimals)) return;
    double unit = w.chunk->unit, inverse = w.chunk->inverse;
    UNROLL for (u32 j = 0; j < kTurned; j++) v[j] = of_decimal(v[j], unit, inverse);
  }

  // Has each be the difference from the one before it. A counter that falls began anew at 0.
  DEVICE void subtract(double& before) {
    UNROLL for (u32 j = 0; j < kTurned; j++) {
      double d = v[j] < before ? v[j] : v[j] - before;
      before = v[j];
      v[j] = d;
    }
  }

 private:
  template <class T>
  DEVICE void load(const Walker& w, u32 i, double base) {
    const T* at = (const T*)w.values + (u64)i * 32;
    u32 last = w.n - 1 - i;
    UNROLL for (u32 j = 0; j < kTurned; j++) {
      T stored = at[(j < last ? j : last) * 32];
      v[j] = sizeof(T) < sizeof(double) ? base + (double)stored : (double)stored;
    }
  }
};

// 128 registers a thread: 16 warps of a multiprocessor load 16 values each at once.
#define KEYS_THREADS MAX_THREADS_AND_BLOCKS(128, 4)

KERNEL KEYS_THREADS series_keys(COLUMNS_PARAMETERS, Flag differences, const u64* __restrict__ key_rows, u64* __restrict__ keys) {
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
  double before = 0;  // the value of the sample before
  if (differences && rank > 0 && from < end) {
    u32 k = from - 1;
    while (c.samples(k, lane) == 0) k--;
    Walker w = entered(c, lane, k, end);
    before = value(w, w.n - 1);
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
        Values of(w, i);
        if (differences) of.subtract(before);
        UNROLL for (u32 j = 0; j < kTurned; j++) turned[lane][j] = sort_key(of.v[j]);
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
