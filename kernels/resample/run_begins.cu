// run_begins: which keys of the rows of a batch of series the runs of these have; see order.h.
//
// Computes: in_rows[s*buckets+k] = the number of the first sample, or difference, of series s in bucket k, counted
//   over its chunks in the batch, and how many these are: n[s*buckets+k].
// Grid: as of count_uniqs.
// A thread owns one series at `length` neighbouring buckets, of which it looks for the first sample alone.
// Bytes per run: reads 4, writes 8; reads some times of chunks where these are not regular.
// Operations per run: 60.
#include "order.h"
#include "walk.h"

// The number of a sample among all of its series, of one sample after the other.
struct Rank {
  u32 tile, before;  // tiles of chunks before that one have so many samples

  DEVICE u32 of(const Walker& w, const Columns& c) {
    for (; tile < w.tile; tile++) before += c.samples(tile, w.lane);
    return before + w.i;
  }
};

KERNEL MAX_THREADS(128) run_begins(RUNS_PARAMETERS, const u32* __restrict__ n, u64* __restrict__ in_rows) {
  RunsJob job = RUNS_JOB;
  if (!job.owns(tiles)) return;
  i64 begin = job.buckets.start(job.mine.from);
  Walker w = (job.differences ? source_from<true>(job, begin) : source_from<false>(job, begin)).at;
  Rank rank{first[job.mine.tile], 0};
  for (u32 k = job.mine.from; k < job.mine.to; k++) {
    i64 start = job.buckets.start(k);
    while (w.t < start) go(w, job.c, first_from(w, start, 0));
    u32 many = n[job.cell(k)];
    in_rows[job.cell(k)] = in_row(many > 0 ? rank.of(w, job.c) : 0, many);
  }
}
