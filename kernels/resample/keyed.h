// Runs whose samples' keys are stored while they are counted, for buckets of which no two overlap.
#pragma once
#include "order.h"

// Where keys go: those of a run from the place of its first sample on, 32 apart, and for each run the
// row of that place, counted from the first of its tile of series.
struct KeysOut {
  u64* __restrict__ keys;
  u32* __restrict__ begins;
  const u64* __restrict__ rows;   // of each tile of chunks the first
  const u32* __restrict__ first;  // of each tile of series the first tile of chunks
  u32 buckets;
};

// A run R, see walk.h, with its keys.
template <class R>
struct Keyed : R {
  const KeysOut& out;
  u64 at;     // of the next key
  u64 row;    // the first of the chunk's

  DEVICE Keyed(const R& r, const KeysOut& out) : R(r), out(out), at(0), row(0) {}

  // Notes that samples are now those of a chunk of that tile.
  DEVICE void enter(u32 tile) { row = out.rows[tile]; }

  DEVICE void add(i64 t, double v, u32 i) {
    if (this->samples() == 0) at = (row + i) * 32 + thread_x() % 32;
    store_streaming(out.keys + at, sort_key(v));
    at += 32;
    R::add(t, v, i);
  }

  DEVICE void end(u32 k, u64 cell) {
    u32 tile = (u32)(cell / 32) / out.buckets;
    out.begins[cell] = (u32)(at / 32 - this->samples() - out.rows[out.first[tile]]);
    R::end(k, cell);
  }
};
