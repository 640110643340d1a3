// Buckets of a resample request.
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
};
