// Quantiles of groups by samples of their keys: Floyd and Rivest's SELECT (1975), with what a block's
// shared memory holds as the sample.
//
//   all keys      |.....................................................|   one in so many is kept
//   sorted                  lo ^   the rank, about   ^ hi
//   those between           |..........................|                   counted; some are kept
//   sorted                        lo ^   ^ hi
//   those between                 |......|                                 all are kept: here it is
//
// Each line is a visit of all keys, but for the first, which goes to those that it keeps. What the
// visits count says how many keys are less, so that the result is exact whichever keys are kept. Where
// the rank is not between lo and hi, or they come no nearer, the keys are found byte by byte.
#pragma once
#include "by_bytes.h"

const u32 kRounds = 5;        // visits of all keys, at most
const double kSampled = 0.4;  // of what there is room for, the share that a sample has

// The keys among which one is looked for, those from lo to hi, and how many there are. lo and hi are
// keys of the group, or 0 and ~0.
struct Between {
  u64 lo, hi;
  u32 rank, behind;  // of the key looked for and the one behind it, among all
  u32 below, at_lo, inside, at_hi;
  u32 every;  // one in so many of those inside is kept
  u32 kept;
  u64 lower, upper;
  bool found, missed;

  DEVICE void begin(Position p) {
    lo = 0;
    hi = ~0ull;
    rank = p.lower;
    behind = p.upper;
    found = missed = false;
    clear();
  }

  DEVICE void clear() { below = at_lo = inside = at_hi = kept = 0; }

  // The key of a rank, of all those inside or of lo and hi.
  DEVICE u64 at(u32 r, const u64* sorted) const {
    r -= below;
    if (r < at_lo) return lo;
    return r - at_lo < inside ? sorted[r - at_lo] : hi;
  }

  // Whether a rank is that of a key inside.
  DEVICE bool is_inside(u32 r) const { return r >= below + at_lo && r - below - at_lo < inside; }

  // Comes nearer by what is kept of the keys inside, n of them, sorted. room is for the next.
  DEVICE void narrow(const u64* sorted, u32 n, u32 room) {
    if (rank < below || behind >= below + at_lo + inside + at_hi) {
      missed = true;
      return;
    }
    if (n == inside || !(is_inside(rank) || is_inside(behind))) {
      lower = at(rank, sorted);
      upper = at(behind, sorted);
      found = true;
      return;
    }
    u32 first = below + at_lo;
    double each = (double)inside / (double)n;  // keys that a kept one stands for
    double a = ((double)rank - (double)first) / each, b = ((double)behind - (double)first) / each;
    // Three standard deviations of the rank, at its largest for the median.
    double of = a / (double)n, variance = (double)n * (of > 0 && of < 1 ? of * (1 - of) : 0);
    double away = 2;
    while (away * away < 9 * variance) away = away * 1.0625 + 1;
    double from = a - away, to = b + away;
    u64 was_lo = lo, was_hi = hi;
    u32 was = every;
    if (from >= 0) lo = sorted[(u32)from];
    if (to < (double)n - 1) hi = sorted[(u32)to + 1];
    // All of those left are kept if they fit, else about as many as make the next range fit.
    double left = ((to < (double)n ? to + 1 : (double)n) - (from > 0 ? from : 0)) * each;
    every = left * 1.25 <= (double)room ? 1 : (u32)(left / ((double)room * kSampled)) + 1;
    missed = n == 0 || (lo == was_lo && hi == was_hi && every >= was);
  }
};

// Sorts `pieces` of keys, at most two, `apart` from each other: the first `size` of each, a power of two. A thread
// makes two stages of the bitonic network at once for four keys.
DEVICE void sort_pieces(u64* keys, u32 pieces, u32 apart, u32 size) {
  auto order = [](u64& x, u64& y, bool rising) {
    if ((x > y) != rising) return;
    u64 was = x;
    x = y;
    y = was;
  };
  u32 stages = 0;
  for (u32 run = 2; run <= size; run *= 2) {
    u32 stride = run / 2;
    if (++stages % 2 == 1) {
      barrier();
      for (u32 i = thread_x(); i < pieces * (size / 2); i += threads_x()) {
        u32 j = i % (size / 2), a = 2 * j - (j & (stride - 1));
        u64* at = keys + i / (size / 2) * apart + a;
        order(at[0], at[stride], (a & run) == 0);
      }
      stride /= 2;
    }
    for (; stride > 0; stride /= 4) {
      u32 half = stride / 2;
      barrier();
      for (u32 i = thread_x(); i < pieces * (size / 4); i += threads_x()) {
        u32 j = i % (size / 4), a = 4 * j - 3 * (j & (half - 1));
        u64* at = keys + i / (size / 4) * apart + a;
        bool rising = (a & run) == 0;
        u64 w = at[0], x = at[half], y = at[stride], z = at[stride + half];
        order(w, y, rising);
        order(x, z, rising);
        order(w, x, rising);
        order(y, z, rising);
        at[0] = w;
        at[half] = x;
        at[stride] = y;
        at[stride + half] = z;
      }
    }
  }
  barrier();
}

// Counts the keys on either side of each range and in it, and keeps some of those inside, in a piece
// of `room` for each range.
DEVICE void count_between(const GroupRuns& runs, Between* all, u32 some, u64* keys, u32 room) {
  u64 lo[kAtATime], hi[kAtATime];
  u32 below[kAtATime], inside[kAtATime], skip[kAtATime];
  UNROLL for (u32 s = 0; s < kAtATime; s++) {
    bool open = s < some && !all[s].found;
    lo[s] = open ? all[s].lo : ~0ull;
    hi[s] = open ? all[s].hi : ~0ull;
    skip[s] = open ? 1 + (u32)((u64)all[s].every * thread_x() / threads_x()) : 0;
    below[s] = inside[s] = 0;
  }
  runs.each([&](u64 key) {
    UNROLL for (u32 s = 0; s < kAtATime; s++) {
      if (s >= some) break;
      u32 top = key >> 32;  // tells it for most
      below[s] += top < (u32)(lo[s] >> 32);
      if (top < (u32)(lo[s] >> 32) || top > (u32)(hi[s] >> 32)) continue;
      if (key <= lo[s]) {
        below[s] += key < lo[s];
        if (key == lo[s]) atomic_add(&all[s].at_lo, 1u);
      } else if (key < hi[s]) {
        inside[s]++;
        if (--skip[s] > 0) continue;
        skip[s] = all[s].every;
        u32 at = atomic_next(&all[s].kept, 1);
        if (at < room) keys[s * room + at] = key;
      } else if (key == hi[s]) {
        atomic_add(&all[s].at_hi, 1u);
      }
    }
  });
  UNROLL for (u32 s = 0; s < kAtATime; s++) {
    if (s >= some || all[s].found) continue;
    atomic_add(&all[s].below, below[s]);
    atomic_add(&all[s].inside, inside[s]);
  }
  barrier();
}

// Sorts the keys that are kept, those of each range in a piece of `room`.
DEVICE void sort_kept(u64* keys, const Between* all, u32 some, u32 room) {
  u32 size = 2;
  for (u32 s = 0; s < some; s++) {
    while (size < room && size < all[s].kept) size *= 2;
  }
  for (u32 s = 0; s < some; s++) {
    for (u32 i = all[s].kept + thread_x(); i < size; i += threads_x()) keys[s * room + i] = ~0ull;
  }
  sort_pieces(keys, some, room, size);
}

// Finds the keys of some ranks, at most kAtATime, which `all` has, among those of a group in a bucket,
// and reports whether all are found. keys has room for `size`, a power of two.
DEVICE bool find_keys(const GroupRuns& runs, u32 total, Between* all, u32 some, u64* keys, u32 size) {
  u32 me = thread_x();
  // At first all keys are one range for all ranks, of which some are kept, if not all of them.
  u32 every = total <= size ? 1 : total / (size / 2 - threads_x()) + 1;
  runs.one_in(every, [&](u64 key) { keys[atomic_next(&all[0].kept, 1)] = key; });
  barrier();
  u32 n = all[0].kept;
  sort_kept(keys, all, 1, size);
  u32 room = size / some;
  if (me < some) {
    all[me].inside = total;
    all[me].every = ~0u;
    all[me].narrow(keys, n, room);
  }
  for (u32 round = 0;; round++) {
    barrier();  // the ranges are there
    bool found = true, missed = round == kRounds;
    for (u32 s = 0; s < some; s++) {
      found = found && all[s].found;
      missed = missed || all[s].missed;
    }
    if (found || missed) return found;
    barrier();  // all have read them
    if (me < some) all[me].clear();
    barrier();
    count_between(runs, all, some, keys, room);
    sort_kept(keys, all, some, room);
    if (me < some && !all[me].found) all[me].narrow(keys + me * room, all[me].kept < room ? all[me].kept : room, room);
  }
}

// What kernels over the groups of a job are given: the runs of all batches, see group_runs.h, the
// quantiles, and where what they come to goes.
#define GROUP_ORDER_PARAMETERS                                                                                  \
  const u64 *__restrict__ in_rows, const u64 *__restrict__ keys, const u64 *__restrict__ key_rows,              \
      const u32 *__restrict__ members, const u32 *__restrict__ first,                                           \
      u32 groups, u32 buckets, const double *__restrict__ quantiles, u32 statistics,                            \
      const u32 *__restrict__ group_n, double *__restrict__ out

#define GROUP_ORDER_JOB \
  GroupOrderJob { in_rows, keys, key_rows, members, first, groups, buckets, quantiles, statistics, group_n, out }

struct GroupOrderJob {
  const u64* __restrict__ in_rows;
  const u64* __restrict__ keys;
  const u64* __restrict__ key_rows;
  const u32* __restrict__ members;
  const u32* __restrict__ first;
  u32 groups, buckets;
  const double* __restrict__ quantiles;
  u32 statistics;
  const u32* __restrict__ group_n;
  double* __restrict__ out;
};

// The quantiles of all groups, with shared memory for `size` keys, a power of two.
template <u32 size>
DEVICE void group_order_in(const GroupOrderJob& job) {
  SHARED u64 some_keys[size];
  SHARED u32 sums[kBytes];
  SHARED Between ranges[kAtATime];
  SHARED Sought sought[kAtATime];
  u32 me = thread_x(), k = block_x();
  for (u32 g = block_y(); g < job.groups; g += blocks_y()) {
    u32 total = job.group_n[(u64)g * job.buckets + k];
    if (total == 0) continue;
    u32 begin = job.first[g];
    GroupRuns runs{job.in_rows, job.keys, {job.key_rows}, job.members + begin, job.first[g + 1] - begin, job.buckets, k, 1};
    runs.share(total);
    for (u32 from = 0; from < job.statistics; from += kAtATime) {
      u32 some = job.statistics - from < kAtATime ? job.statistics - from : kAtATime;
      barrier();  // all have read what is there
      if (me < some) ranges[me].begin(position_of(job.quantiles[from + me], total));
      barrier();
      bool all_found = find_keys(runs, total, ranges, some, some_keys, size);
      if (!all_found) {
        if (me < some) sought[me] = Sought{0, ranges[me].rank, 0, ~0ull};
        find_by_bytes(runs, sought, some, (u32*)some_keys, sums);
      }
      if (me < some) {
        Between& r = ranges[me];
        if (!all_found) {
          const Sought& x = sought[me];
          r.lower = x.prefix;
          r.upper = r.behind == r.rank || x.rank + 1 < x.equal ? x.prefix : x.next;
        }
        double lower = of_sort_key(r.lower), upper = r.upper == r.lower ? lower : of_sort_key(r.upper);
        double weight = position_of(job.quantiles[from + me], total).weight;
        job.out[((u64)(from + me) * job.groups + g) * job.buckets + k] = between(lower, upper, weight);
      }
    }
  }
}
