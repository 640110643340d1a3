// Buckets of a resample request, and the one that a time is rounded to.
#pragma once
#include "../abi/compiler.h"

// Bucket k has the samples of starts[k] <= t < ends[k], ms; both ascend. Where all are `every`
// ms apart that is not 0, and no table is read.
#define BUCKETS_PARAMETERS                                                                                       \
  const i64 *__restrict__ starts, const i64 *__restrict__ ends, i64 first_start, i64 first_end, i64 every, i64 later, \
      u32 buckets

#define BUCKETS \
  Buckets { starts, ends, first_start, first_end, every, later, buckets }

struct Buckets {
  const i64* __restrict__ starts;
  const i64* __restrict__ ends;
  i64 first_start, first_end;
  i64 every;
  i64 later;  // ms from a window (a, b] to the samples that it has, [a+1, b+1): 1, else 0
  u32 count;

  DEVICE i64 start(u32 k) const { return every > 0 ? first_start + (i64)k * every : starts[k]; }
  DEVICE i64 end(u32 k) const { return every > 0 ? first_end + (i64)k * every : ends[k]; }

  // The edges of the window of bucket k as the request means it: of (a, b] a and b.
  DEVICE i64 opens(u32 k) const { return start(k) - later; }
  DEVICE i64 closes(u32 k) const { return end(k) - later; }

  // The first bucket that ends behind time t, `count` if there is none: t's own if it has one.
  DEVICE u32 round_timestamp(i64 t) const { return passed(t, first_end, ends); }

  // The number of buckets that begin at time t or before it.
  DEVICE u32 begun(i64 t) const { return passed(t, first_start, starts); }

 private:
  // How many of the edges, of which `first` is the first, lie at time t or before it: an integer
  // floor, or a search in the table of the calendar.
  DEVICE u32 passed(i64 t, i64 first, const i64* __restrict__ edges) const {
    if (t < first) return 0;
    if (every > 0) {
      u64 n = (u64)(t - first) / (u64)every + 1;
      return n < count ? (u32)n : count;
    }
    u32 lo = 0, hi = count;
    while (lo < hi) {
      u32 mid = (lo + hi) / 2;
      if (edges[mid] > t) {
        hi = mid;
      } else {
        lo = mid + 1;
      }
    }
    return lo;
  }
};
