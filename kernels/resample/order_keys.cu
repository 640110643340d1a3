// order_keys: the values of a batch of series as keys of their order, without gaps, and where in
// them each bucket begins.
//
// Computes: keys[(rows[first[tile]]+r)*32+lane] = the key of sample r of the series, of those in
//   buckets; begins[s*buckets+k] of series s = the r of the first sample of bucket k.
// Grid: x tiles of 32 series, four a block of 128 threads; y ranges of buckets.
// A thread owns one series at `length` neighbouring buckets. Where buckets overlap, neighbours
//   write the same keys.
// Bytes per sample: reads 16, writes 8. Writes 4 a bucket.
// Operations per sample: 10.
#include "../values/step_range.h"
#include "order.h"
#include "run.h"

template <bool differences>
DEVICE void order_keys_of(const RunsJob& job, u64* __restrict__ keys, u32* __restrict__ begins) {
  const Buckets& buckets = job.buckets;
  const StepRange& mine = job.mine;
  Source s = source_from<differences>(job, buckets.start(mine.from));
  u32 first = job.first[mine.tile], rank = s.at.i;
  for (u32 k = first; k < s.at.tile; k++) rank += job.c.samples(k, mine.lane);
  u64* to = keys + job.c.rows[first] * 32 + mine.lane;
  u32 k = mine.from;
  i64 start = buckets.start(k), end = buckets.end(mine.to - 1);
  for (; s.at.t < end; next(s.at, job.c)) {
    for (; k < mine.to && s.at.t >= start; start = k < mine.to ? buckets.start(k) : kNever) begins[job.cell(k++)] = rank;
    to[(u64)rank++ * 32] = sort_key(s.value<differences>(value_at(s.at)));
  }
  for (; k < mine.to; k++) begins[job.cell(k)] = rank;
}

KERNEL MAX_THREADS(128) order_keys(RUNS_PARAMETERS, u64* __restrict__ keys, u32* __restrict__ begins) {
  RunsJob job = RUNS_JOB;
  if (!job.owns(tiles)) return;
  if (job.differences) {
    order_keys_of<true>(job, keys, begins);
  } else {
    order_keys_of<false>(job, keys, begins);
  }
}
