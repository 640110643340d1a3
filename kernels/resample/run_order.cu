// run_order: order statistics of runs: quantiles, and the number of different values.
//
// Computes, of the n values v(0) <= v(1) ... of a run, NaN first: v(r)*(1-w) + v(r+1)*w, where
//   r + w = quantile*(n-1), for each of some quantiles; or the number of different values, where
//   the quantile is negative: out[s*cells+(tile*32+lane)*buckets+k]. A run of more than 2048
//   values lowers *fault to kLongRun, a zero of zeros of either sign to kMixedZeros.
// Grid: a thread a run, those of a series one after the other; blocks of 32.
// A block loads its runs one after the other. A thread owns one run, and sorts up to 24 values in registers,
//   up to 64 in shared memory, 512 bytes a thread. Longer runs the block sorts one after the other, by a
//   bitonic network: up to 512 values in registers, more in the same memory.
// Bytes per sample: reads 8, once. Reads 8 a run, writes 8 a statistic.
// Operations per sample: 60 in runs of 20; of long runs 5 for each of log2(n)*(log2(n)+1)/2 stages.
#include "order.h"

const u32 kAlone = 64;        // values that a thread sorts
const u32 kTogether = 2048;   // values that a block sorts
const u32 kRunsAhead = 16;    // runs whose keys are loaded at once
const u32 kKeyPitch = 33;     // from one key of a thread to the next, so that banks are apart

// Sorts size keys, a power of two, with all threads of the block.
DEVICE void sort_together(u64* keys, u32 size) {
  for (u32 run = 2; run <= size; run *= 2) {
    for (u32 stride = run / 2; stride > 0; stride /= 2) {
      barrier();
      for (u32 i = thread_x(); i < size / 2; i += 32) {
        u32 a = 2 * i - (i & (stride - 1)), b = a + stride;
        u64 x = keys[a], y = keys[b];
        bool rising = (a & run) == 0;
        if ((x > y) == rising) {
          keys[a] = y;
          keys[b] = x;
        }
      }
    }
  }
  barrier();
}

// The stages of a bitonic network from `stride` on, among the n values of a lane.
template <u32 n, class Rising>
DEVICE void merge_in_registers(u64 (&v)[n], u32 stride, Rising&& rising) {
  UNROLL for (; stride > 0; stride /= 2) {
    UNROLL for (u32 j = 0; j < n; j++) {
      if (j & stride) continue;
      u64 x = v[j], y = v[j + stride];
      bool turn = (x > y) == rising(j);
      v[j] = turn ? y : x;
      v[j + stride] = turn ? x : y;
    }
  }
}

// Sorts the keys of a run in the registers of a warp, n each, and writes them to
// sorted.
template <u32 n>
DEVICE void sort_in_registers(const u64* __restrict__ at, u32 many, u64* sorted) {
  u32 me = thread_x();
  u64 v[n], other[n];
  UNROLL for (u32 j = 0; j < n; j++) v[j] = j * 32 + me < many ? at[j * 32 + me] : ~0ull;
  // Value j of lane l is value l*n+j of the network. Only what a lane has is gone through without loops:
  // warps are at different places, and would wait for instructions.
  UNROLL for (u32 run = 2; run <= n; run *= 2) merge_in_registers<n>(v, run / 2, [&](u32 j) { return ((me * n + j) & run) == 0; });
  NO_UNROLL for (u32 run = 2 * n; run <= 32 * n; run *= 2) {
    bool rising = (me * n & run) == 0;
    NO_UNROLL for (u32 lanes = run / n / 2; lanes > 0; lanes /= 2) {
      bool least = ((me & lanes) == 0) == rising;
      shuffle_xor(v, other, lanes);
      UNROLL for (u32 j = 0; j < n; j++) v[j] = (v[j] < other[j]) == least ? v[j] : other[j];
    }
    merge_in_registers<n>(v, n / 2, [&](u32) { return rising; });
  }
  UNROLL for (u32 j = 0; j < n; j++) sorted[me * n + j] = v[j];
  barrier();
}

// Sorts n keys in registers, by Batcher's odd-even merges.
template <u32 n>
DEVICE void sort_network(u64 (&v)[n]) {
  UNROLL for (u32 p = 1; p < n; p *= 2) {
    UNROLL for (u32 k = p; k > 0; k /= 2) {
      UNROLL for (u32 a = 0; a < n - 1; a++) {
        u32 b = a + k;
        if (b >= n || a < k % p || (a - k % p) / k % 2 == 1 || a / (2 * p) != b / (2 * p)) continue;
        u64 x = v[a], y = v[b];
        bool turn = x > y;
        v[a] = turn ? y : x;
        v[b] = turn ? x : y;
      }
    }
  }
}

// Sorts up to n keys of a thread where they are.
template <u32 n>
DEVICE void sort_alone(const SortedKeys& s) {
  u64 v[n];
  UNROLL for (u32 j = 0; j < n; j++) v[j] = j < s.n ? s[j] : ~0ull;
  sort_network(v);
  UNROLL for (u32 j = 0; j < n; j++) {
    if (j < s.n) s[j] = v[j];
  }
}

KERNEL MAX_THREADS(32) run_order(const u64* __restrict__ in_rows, const u64* __restrict__ keys, const u64* __restrict__ key_rows,
                                 u32 buckets, const double* __restrict__ quantiles, u32 statistics,
                                 double* __restrict__ out, u64 cells, u64* __restrict__ fault) {
  SHARED u64 sorted[kAlone * kKeyPitch];
  SHARED u64 starts[32];
  SHARED u32 counts[32];
  u32 me = thread_x();
  u64 run = (u64)block_x() * 32 + me;
  u32 series = (u32)(run / buckets);
  InRow mine(in_rows[run]);
  counts[me] = mine.n;
  starts[me] = KeyRows{key_rows}.at(series) + mine.begin;
  barrier();
  // The block loads the keys of one run after the other.
  for (u32 r = 0; r < 32; r += kRunsAhead) {
    for (u32 i = me; i < kAlone; i += 32) {
      u64 ahead[kRunsAhead];
      bool some = false;
      UNROLL for (u32 j = 0; j < kRunsAhead; j++) {
        bool there = i < counts[r + j] && counts[r + j] <= kAlone;
        ahead[j] = load_if(there, keys + starts[r + j] + i);
        some = some || there;
      }
      if (!some) continue;
      UNROLL for (u32 j = 0; j < kRunsAhead; j++) sorted[i * kKeyPitch + r + j] = ahead[j];
    }
  }
  barrier();
  SortedKeys s{sorted + me, kKeyPitch, mine.n};
  if (mine.n > 0 && mine.n <= kAlone) {
    if (mine.n <= 8) {
      sort_alone<8>(s);
    } else if (mine.n <= 24) {
      sort_alone<24>(s);
    } else {
      for (s.n = 1; s.n < mine.n;) s.insert(s[s.n]);
    }
    for (u32 i = 0; i < statistics; i++) out[i * cells + run] = s.statistic(quantiles[i], fault);
  }
  for (u32 lane = 0; lane < 32; lane++) {
    u32 many = counts[lane];
    if (many <= kAlone) continue;
    if (many > kTogether) {
      if (me == 0) atomic_min(fault, kLongRun);
      continue;
    }
    barrier();  // all have read what is there
    const u64* at = keys + starts[lane];
    if (many <= 128) {
      sort_in_registers<4>(at, many, sorted);
    } else if (many <= 256) {
      sort_in_registers<8>(at, many, sorted);
    } else if (many <= 512) {
      sort_in_registers<16>(at, many, sorted);
    } else {
      u32 size = many <= 1024 ? 1024 : kTogether;
      for (u32 i = me; i < size; i += 32) sorted[i] = i < many ? at[i] : ~0ull;
      sort_together(sorted, size);
    }
    SortedKeys all{sorted, 1, many};
    for (u32 i = me; i < statistics; i += 32) out[i * cells + run - me + lane] = all.statistic(quantiles[i], fault);
  }
}
