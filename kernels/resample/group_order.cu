// group_order: quantiles of the values that all series of a group have in a bucket.
//
// Computes, of the n values v(0) <= v(1) ... of group g in bucket k, NaN first: v(r)*(1-w) +
//   v(r+1)*w, where r + w = quantile*(n-1), for each of some quantiles: out[s*groups*buckets+
//   g*buckets+k].
// Grid: x buckets; y groups, in strides of the grid; blocks of 32 to 256 threads, a power of two.
// A block owns one group at one bucket, and goes through the keys of all its runs once for each
//   byte of a key, for up to four quantiles at once: it counts how many keys that begin as the one
//   looked for have each next byte. A thread has every so many'th series of the group. The last
//   time it looks for the next larger key.
// Bytes per sample: reads 8, nine times. Reads 8 a run as often.
// Operations per sample: 5 a byte and quantile.
#include "group_runs.h"

const u32 kAtATime = 4;  // quantiles
const u32 kBytes = 256;  // values of a byte

// What is looked for: the key of a rank, as far as it is known.
struct Sought {
  u64 prefix;
  u32 rank;   // among the keys that begin so
  u32 equal;  // keys that are the same in the end
  u64 next;   // the smallest key that is larger
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

KERNEL MAX_THREADS(256) group_order(const u32* __restrict__ n, const u32* __restrict__ begins, const u64* __restrict__ keys,
                                    const u64* __restrict__ tile_rows, const u32* __restrict__ members,
                                    const u32* __restrict__ first, u32 groups, u32 buckets,
                                    const double* __restrict__ quantiles, u32 statistics, const u32* __restrict__ group_n,
                                    double* __restrict__ out) {
  SHARED u32 counts[kAtATime * kBytes], sums[kBytes];
  SHARED Sought sought[kAtATime];
  u32 me = thread_x(), threads = threads_x(), k = block_x();
  u32 share = kBytes / threads;  // bytes' values of a thread
  for (u32 g = block_y(); g < groups; g += blocks_y()) {
    u32 total = group_n[(u64)g * buckets + k];
    if (total == 0) continue;
    GroupRuns runs{n, begins, keys, tile_rows, members + first[g], first[g + 1] - first[g], buckets, k};
    for (u32 from = 0; from < statistics; from += kAtATime) {
      u32 some = statistics - from < kAtATime ? statistics - from : kAtATime;
      barrier();  // all have read what is there
      if (me < some) sought[me] = Sought{0, position_of(quantiles[from + me], total).lower, 0, ~0ull};
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
      if (me < some) {
        Sought& x = sought[me];
        Position p = position_of(quantiles[from + me], total);
        double lower = of_sort_key(x.prefix);
        bool same = p.upper == p.lower || x.rank + 1 < x.equal;
        double upper = same ? lower : of_sort_key(x.next);
        out[((u64)(from + me) * groups + g) * buckets + k] = between(lower, upper, p.weight);
      }
    }
  }
}
