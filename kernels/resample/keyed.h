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
};

// A run R, see walk.h, with its keys.
template <class R>
struct Keyed : R {
  const KeysOut& keys;
  u64 at;  // of the next key

  DEVICE Keyed(const R& r, const KeysOut& keys) : R(r), keys(keys), at(0) {}

  DEVICE void from(u32 tile, u32 i, i64 t) {
    if (this->samples() == 0) at = (keys.rows[tile] + i) * 32 + thread_x() % 32;
    R::from(tile, i, t);
  }

  DEVICE void add(i64 t, double v) {
    store_streaming(keys.keys + at, sort_key(v));
    at += 32;
    R::add(t, v);
  }

  DEVICE void end(u32 k) {
    u64 row = at / 32 - this->samples() - keys.rows[keys.first[this->job.mine.tile]];
    if (this->samples() > 0) keys.begins[this->job.cell(k)] = (u32)row;
    R::end(k);
  }
};
