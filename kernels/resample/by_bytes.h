// Keys of some ranks among those of a group in a bucket, byte by byte: a way that always ends, after
// nine visits of all keys.
#pragma once
#include "group_runs.h"

const u32 kAtATime = 2;  // quantiles
const u32 kBytes = 256;  // values of a byte

// What is looked for: the key of a rank, and of the one behind it.
struct Sought {
  u64 prefix;  // of the key, as far as it is known
  u32 rank;    // among the keys that begin so
  u32 equal;   // keys that are the same in the end
  u64 next;    // the smallest key that is larger
};

// The sum of v over this thread and those before it.
DEVICE u32 sum_upto(u32 v, u32* sums) {
  u32 me = thread_x();
  barrier();  // all have read what is there
  sums[me] = v;
  barrier();
  for (u32 step = 1; step < threads_x(); step *= 2) {
    u32 before = me >= step ? sums[me - step] : 0;
    barrier();
    sums[me] += before;
    barrier();
  }
  return sums[me];
}

// Finds `some` keys, at most kAtATime, of whose ranks sought says. counts has a place for each of these
// and each value of a byte, sums one for each thread.
DEVICE void find_by_bytes(const GroupRuns& runs, Sought* sought, u32 some, u32* counts, u32* sums) {
  u32 me = thread_x(), threads = threads_x();
  u32 share = kBytes / threads;  // bytes' values of a thread
  barrier();                     // sought is there
  for (u32 shift = 64; shift > 0;) {
    shift -= 8;
    for (u32 i = me; i < some * kBytes; i += threads) counts[i] = 0;
    barrier();
    runs.each([&](u64 key) {
      for (u32 s = 0; s < some; s++) {
        if (shift == 56 || (key ^ sought[s].prefix) >> (shift + 8) == 0) {
          atomic_add(&counts[s * kBytes + ((u32)(key >> shift) & 255)], 1u);
        }
      }
    });
    barrier();
    for (u32 s = 0; s < some; s++) {
      u32* mine = counts + s * kBytes + me * share;
      u32 sum = 0, rank = sought[s].rank;
      for (u32 i = 0; i < share; i++) sum += mine[i];
      u32 before = sum_upto(sum, sums) - sum;
      if (rank >= before && rank - before < sum) {
        u32 i = 0;
        for (rank -= before; rank >= mine[i]; i++) rank -= mine[i];
        sought[s].prefix |= (u64)(me * share + i) << shift;
        sought[s].rank = rank;
        sought[s].equal = mine[i];
      }
    }
    barrier();
  }
  u64 next[kAtATime];
  UNROLL for (u32 s = 0; s < kAtATime; s++) next[s] = ~0ull;
  runs.each([&](u64 key) {
    UNROLL for (u32 s = 0; s < kAtATime; s++) {
      if (s < some && key > sought[s].prefix && key < next[s]) next[s] = key;
    }
  });
  UNROLL for (u32 s = 0; s < kAtATime; s++) {
    if (s < some) atomic_min(&sought[s].next, next[s]);
  }
  barrier();
}
