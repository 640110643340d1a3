// The keys of all samples of a group in a bucket, which a block goes through together.
#pragma once
#include "order.h"

const u32 kAhead = 8;  // keys of a series that are loaded at once

// The runs of a group in a bucket.
struct GroupRuns {
  const u32* __restrict__ n;
  const u32* __restrict__ begins;
  const u64* __restrict__ keys;
  const u64* __restrict__ tile_rows;  // the first row of each tile of series
  const u32* __restrict__ members;    // series
  u32 count, buckets, k;

  // The keys of a series, 32 apart.
  struct Run {
    const u64* __restrict__ at;
    u32 many;
  };

  DEVICE Run run(u32 m) const {
    if (m >= count) return Run{keys, 0};
    u32 series = members[m];
    u64 cell = (u64)series * buckets + k;
    u32 many = n[cell];
    if (many == 0) return Run{keys, 0};
    return Run{keys + (tile_rows[series / 32] + begins[cell]) * 32 + series % 32, many};
  }

  // Hands the keys of this thread's series to sink. Where the next series has its keys is loaded meanwhile.
  template <class Sink>
  DEVICE void each(Sink&& sink) const {
    Run next = run(thread_x());
    for (u32 m = thread_x(); m < count; m += threads_x()) {
      Run now = next;
      next = run(m + threads_x());
      for (u32 i = 0; i < now.many; i += kAhead) {
        u64 ahead[kAhead];
        UNROLL for (u32 j = 0; j < kAhead; j++) ahead[j] = now.at[(u64)(i + j < now.many ? i + j : i) * 32];
        UNROLL for (u32 j = 0; j < kAhead; j++) {
          if (i + j < now.many) sink(ahead[j]);
        }
      }
    }
  }

  // Hands one in so many of the keys of this thread's series to sink.
  template <class Sink>
  DEVICE void one_in(u32 every, Sink&& sink) const {
    u32 skip = (u32)((u64)every * thread_x() / threads_x());
    for (u32 m = thread_x(); m < count; m += threads_x()) {
      Run of = run(m);
      for (; skip < of.many; skip += every) sink(of.at[(u64)skip * 32]);
      skip -= of.many;
    }
  }
};
