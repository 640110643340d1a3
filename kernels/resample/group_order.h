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

const u32 kRounds = 5;  // visits of all keys, at most

// The keys among which one is looked for, those from lo to hi, and how many there are. lo and hi are
// keys of the group, or 0 and ~0.
struct Between {
  u64 lo, hi;
  u32 rank, behind;  // of the key looked for and the one behind it, among all
  u32 below, at_lo, inside, at_hi;
  u32 shift;  // one in 1 << shift of those inside is kept
  u64 lower, upper;
  bool found, missed;

  DEVICE void begin(Position p) {
    lo = 0;
    hi = ~0ull;
    rank = p.lower;
    behind = p.upper;
    found = missed = false;
  }

  // The number of keys that are kept, in memory for at most `room`.
  DEVICE u32 kept(u32 room) const {
    u32 n = inside >> shift;
    if (n << shift < inside) n++;
    return n < room ? n : room;
  }

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
    u32 was = shift;
    if (from >= 0) lo = sorted[(u32)from];
    if (to < (double)n - 1) hi = sorted[(u32)to + 1];
    double left = (to < (double)n ? to + 1 : (double)n) - (from > 0 ? from : 0);
    double keys = left * each * 1.25 / (double)room;
    for (shift = 0; keys > 1; shift++) keys *= 0.5;
    missed = lo == was_lo && hi == was_hi && shift >= was;
  }
};

// Sorts `size` keys, a power of two, in pieces of `piece` each, a power of two.
DEVICE void sort_pieces(u64* keys, u32 size, u32 piece) {
  for (u32 run = 2; run <= piece; run *= 2) {
    for (u32 stride = run / 2; stride > 0; stride /= 2) {
      barrier();
      for (u32 i = thread_x(); i < size / 2; i += threads_x()) {
        u32 a = 2 * i - (i & (stride - 1)), b = a + stride;
        u64 x = keys[a], y = keys[b];
        bool rising = (a & (piece - 1) & run) == 0;
        if ((x > y) == rising) {
          keys[a] = y;
          keys[b] = x;
        }
      }
    }
  }
  barrier();
}

// Keeps one in so many of all keys, at most `room`, and returns how many these are.
DEVICE u32 keep_of_all(const GroupRuns& runs, u32 total, u64* keys, u32 room, u32* kept) {
  u32 every = total <= room ? 1 : total / (room - threads_x()) + 1;
  runs.one_in(every, [&](u64 key) { keys[atomic_next(kept, 1)] = key; });
  barrier();
  u32 n = *kept;
  for (u32 i = n + thread_x(); i < room; i += threads_x()) keys[i] = ~0ull;
  return n;
}

// Counts the keys on either side of each range and in it, and keeps some of those inside, in a piece
// of `room` for each range.
DEVICE void count_between(const GroupRuns& runs, Between* all, u32 some, u64* keys, u32 room) {
  u64 lo[kAtATime], hi[kAtATime];
  u32 below[kAtATime], at_lo[kAtATime], at_hi[kAtATime], shift[kAtATime];
  UNROLL for (u32 s = 0; s < kAtATime; s++) {
    bool open = s < some && !all[s].found;
    lo[s] = open ? all[s].lo : ~0ull;
    hi[s] = open ? all[s].hi : ~0ull;
    shift[s] = open ? all[s].shift : 0;
    below[s] = at_lo[s] = at_hi[s] = 0;
  }
  runs.each([&](u64 key) {
    UNROLL for (u32 s = 0; s < kAtATime; s++) {
      if (s >= some) break;
      u32 top = key >> 32;  // tells it for most
      below[s] += top < (u32)(lo[s] >> 32);
      if (top < (u32)(lo[s] >> 32) || top > (u32)(hi[s] >> 32)) continue;
      if (key <= lo[s]) {
        at_lo[s] += key == lo[s];
        below[s] += key < lo[s];
      } else if (key < hi[s]) {
        u32 i = atomic_next(&all[s].inside, 1), at = i >> shift[s];
        if (at << shift[s] == i && at < room) keys[s * room + at] = key;
      } else if (key == hi[s]) {
        at_hi[s]++;
      }
    }
  });
  UNROLL for (u32 s = 0; s < kAtATime; s++) {
    if (s >= some || all[s].found) continue;
    atomic_add(&all[s].below, below[s]);
    atomic_add(&all[s].at_lo, at_lo[s]);
    atomic_add(&all[s].at_hi, at_hi[s]);
  }
  barrier();
  for (u32 s = 0; s < some; s++) {
    if (all[s].found) continue;
    for (u32 i = all[s].kept(room) + thread_x(); i < room; i += threads_x()) keys[s * room + i] = ~0ull;
  }
}

// Finds the keys of some ranks, at most kAtATime, which `all` has, among those of a group in a bucket,
// and reports whether all are found. keys has room for `size`, a power of two.
DEVICE bool find_keys(const GroupRuns& runs, u32 total, Between* all, u32 some, u64* keys, u32 size, u32* kept) {
  u32 me = thread_x();
  u32 n = keep_of_all(runs, total, keys, size, kept);
  u32 least = 2;
  while (least < n) least *= 2;
  sort_pieces(keys, least, least);
  u32 room = size / some;
  if (me < some) {
    all[me].below = all[me].at_lo = all[me].at_hi = 0;
    all[me].inside = total;
    all[me].shift = 31;
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
    if (me < some && !all[me].found) all[me].below = all[me].at_lo = all[me].inside = all[me].at_hi = 0;
    barrier();
    count_between(runs, all, some, keys, room);
    sort_pieces(keys, room * some, room);
    if (me < some && !all[me].found) all[me].narrow(keys + me * room, all[me].kept(room), room);
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
  SHARED u32 sums[kBytes], kept;
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
      if (me == 0) kept = 0;
      if (me < some) ranges[me].begin(position_of(job.quantiles[from + me], total));
      barrier();
      bool all_found = find_keys(runs, total, ranges, some, some_keys, size, &kept);
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
