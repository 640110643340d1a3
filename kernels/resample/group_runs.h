// The keys of all samples of a group in a bucket, which a block goes through together.
#pragma once
#include "order.h"

// The runs of a group in a bucket.
struct GroupRuns {
  const u32* __restrict__ n;
  const u32* __restrict__ begins;
  const u64* __restrict__ keys;
  const u64* __restrict__ tile_rows;  // the first row of each tile of series
  const u32* __restrict__ members;    // places
  u32 count, buckets, k;

  // Hands the keys of this thread's series to sink.
  template <class Sink>
  DEVICE void each(Sink&& sink) const {
    for (u32 m = thread_x(); m < count; m += threads_x()) {
      u32 place = members[m];
      u64 cell = ((u64)(place / 32) * buckets + k) * 32 + place % 32;
      u32 many = n[cell];
      if (many == 0) continue;
      const u64* at = keys + (tile_rows[place / 32] + begins[cell]) * 32 + place % 32;
      u32 i = 0;
      for (; i + 4 <= many; i += 4) {
        u64 a = at[0], b = at[32], c = at[64], d = at[96];
        at += 128;
        sink(a);
        sink(b);
        sink(c);
        sink(d);
      }
      for (; i < many; i++, at += 32) sink(*at);
    }
  }
};
