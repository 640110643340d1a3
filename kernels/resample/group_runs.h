// The keys of all samples of a group in a bucket, which a block goes through together.
#pragma once
#include "order.h"

const u32 kAhead = 3;          // keys of a run that a thread loads at once
const u32 kRunsAtOnce = 2;     // runs whose keys are loaded at once
const u32 kMostThreads = 256;  // of a block

// The keys of a run.
struct GroupRun {
  u64 at;  // the number of the first
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
  u32 shift;  // 1 << shift threads go through a run together, up to 32

  // Has enough threads go through each run for `total` keys of all.
  DEVICE void share(u32 total) {
    for (shift = 0; shift < 5 && (u64)(kAhead << shift) * count < total;) shift++;
  }

  DEVICE GroupRun run(u32 m) const {
    if (m >= count) return GroupRun{0, 0};
    u32 series = members[m];
    InRow r(in_rows[(u64)series * buckets + k]);
    return GroupRun{rows.at(series) + r.begin, r.n};
  }

  // Hands all keys to sink(key, there), each in some thread, and others that are not there. A warp finds 32 runs at a time, the next ones while it goes
  // through the keys of these.
  template <class Sink>
  DEVICE void each(Sink&& sink) const {
    u32 lane = thread_x() % 32, lanes = 1u << shift, apart = 32 >> shift;
    GroupRun* found = found_runs() + (thread_x() - lane);
    GroupRun next = run(thread_x());
    for (u32 m = thread_x() - lane; m < count; m += threads_x()) {
      warp_barrier();  // all have read what is there
      found[lane] = next;
      warp_barrier();
      next = run(m + threads_x() + lane);
      for (u32 r = lane >> shift; r < 32; r += kRunsAtOnce * apart) {
        GroupRun of[kRunsAtOnce];
        u32 longest = 0;
        UNROLL for (u32 q = 0; q < kRunsAtOnce; q++) {
          of[q] = r + q * apart < 32 ? found[r + q * apart] : GroupRun{0, 0};
          longest = of[q].n > longest ? of[q].n : longest;
        }
        for (u32 i = lane & (lanes - 1); i < longest; i += kAhead * lanes) {
          u64 ahead[kRunsAtOnce][kAhead];
          UNROLL for (u32 q = 0; q < kRunsAtOnce; q++) {
            UNROLL for (u32 j = 0; j < kAhead; j++) {
              u32 at = i + j * lanes;
              ahead[q][j] = load_if(at < of[q].n, keys + of[q].at + at);
            }
          }
          UNROLL for (u32 q = 0; q < kRunsAtOnce; q++) {
            UNROLL for (u32 j = 0; j < kAhead; j++) sink(ahead[q][j], i + j * lanes < of[q].n);
          }
        }
      }
    }
  }

  // Hands one in so many of the keys of this thread's runs to sink.
  template <class Sink>
  DEVICE void one_in(u32 every, Sink&& sink) const {
    u32 skip = (u32)((u64)every * thread_x() / threads_x());
    GroupRun next = run(thread_x());
    for (u32 m = thread_x(); m < count; m += threads_x()) {
      GroupRun now = next;
      next = run(m + threads_x());
      for (; skip < now.n; skip += every) sink(keys[now.at + skip]);
      skip -= now.n;
    }
  }
};
