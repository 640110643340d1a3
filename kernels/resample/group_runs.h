// The keys of all samples of a group in a bucket, which a block goes through together.
#pragma once
#include "order.h"

const u32 kAhead = 4;          // keys of a run that a thread loads at once
const u32 kMostThreads = 256;  // of a block
const u64 kNoKey = ~0ull;      // of no value
const u32 kNoHalf = ~0u - 1;   // above the upper halves of all values' keys
const u64 kLastKey = (u64)kNoHalf << 32;

// The keys of a run.
struct GroupRun {
  const u64* at;
  u32 n;
};

// The runs that the threads of a block have found.
DEVICE GroupRun* found_runs() {
  SHARED GroupRun all[kMostThreads];
  return all;
}

// The runs of a group in a bucket.
struct GroupRuns {
  const u64* __restrict__ in_rows;
  const u64* __restrict__ keys;
  KeyRows rows;
  const u32* __restrict__ members;  // series
  u32 count, buckets, k;
  u32 lanes;  // threads that go through a run together, a power of two up to 32

  // Has enough threads go through each run for `total` keys of all.
  DEVICE void share(u32 total) {
    for (lanes = 1; lanes < 32 && (u64)lanes * kAhead * count < total;) lanes *= 2;
  }

  DEVICE GroupRun run(u32 m) const {
    if (m >= count) return GroupRun{keys, 0};
    u32 series = members[m];
    InRow r(in_rows[(u64)series * buckets + k]);
    return GroupRun{keys + rows.at(series) + r.begin, r.n};
  }

  // Hands each key to sink in some thread, and kNoKey where there is none. A warp finds 32 runs at a
  // time, the next ones while it goes through the keys of these, two runs at once.
  template <class Sink>
  DEVICE void each(Sink&& sink) const {
    u32 lane = thread_x() % 32, apart = 32 / lanes;
    GroupRun* found = found_runs() + (thread_x() - lane);
    GroupRun next = run(thread_x());
    for (u32 m = thread_x() - lane; m < count; m += threads_x()) {
      warp_barrier();  // all have read what is there
      found[lane] = next;
      warp_barrier();
      next = run(m + threads_x() + lane);
      for (u32 r = lane / lanes; r < 32; r += 2 * apart) {
        GroupRun a = found[r], b = r + apart < 32 ? found[r + apart] : GroupRun{keys, 0};
        for (u32 i = lane % lanes; i < a.n || i < b.n; i += kAhead * lanes) {
          u64 key[2 * kAhead];
          UNROLL for (u32 j = 0; j < kAhead; j++) key[j] = load_if(i + j * lanes < a.n, a.at + i + j * lanes);
          UNROLL for (u32 j = 0; j < kAhead; j++) key[kAhead + j] = load_if(i + j * lanes < b.n, b.at + i + j * lanes);
          UNROLL for (u32 j = 0; j < 2 * kAhead; j++) sink(key[j]);
        }
      }
    }
  }

  // Hands each every-th of the keys of this thread's runs to sink.
  template <class Sink>
  DEVICE void one_in(u32 every, Sink&& sink) const {
    u32 skip = (u32)((u64)every * thread_x() / threads_x());
    GroupRun next = run(thread_x());
    for (u32 m = thread_x(); m < count; m += threads_x()) {
      GroupRun now = next;
      next = run(m + threads_x());
      for (; skip < now.n; skip += every) sink(now.at[skip]);
      skip -= now.n;
    }
  }
};
