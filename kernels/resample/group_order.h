// Quantiles of groups by samples of their keys: Floyd and Rivest's SELECT (1975). The sample is
// what a block's shared memory holds.
//
//   all keys       |......................................................|  one in n is kept
//   among these              lo ^   the rank, about   ^ hi
//   between these            |........................|                     counted, and kept
//   among these                       ^ the key
//
// The first line reads only the keys that it keeps, the third reads all. It counts the keys that
// are less than lo, so that the result is exact whichever keys the sample has. Where more keys are
// between lo and hi than fit, one in n of them is kept as the next sample. Where the rank is not
// between, the next visit looks beside. After kRounds visits, ranks are found digit by digit.
#pragma once
#include "group_runs.h"
#include "ranks.h"

const u32 kAtATime = 2;       // quantiles
const u32 kRounds = 5;        // visits of all keys, at most
const double kFilled = 0.85;  // share of the room that keys between lo and hi are expected to fill
// 2.5 standard deviations about the median and the 95th percentile fill the room if the sample
// has (kSampled*keys/room)^2 keys.
const double kSampled = 4.2;

// The range of keys, between lo and hi, in which a rank is looked for, and the number of keys in it.
// lo and hi are keys of the group, or 0 and kLastKey, or beside it after a visit that missed the rank.
struct Between {
  u64 lo, hi;
  u32 total, rank, behind;  // of all keys; of the key looked for and the one behind it
  u32 below, at_lo, inside, at_hi;
  u32 every;     // of those inside, each every-th is kept
  u32 kept;      // how many, more than `room` if not all have room
  u32 at, room;  // in the block's shared memory
  double expected;  // keys inside
  u64 lower, upper;
  bool found, lost;

  DEVICE void begin(Position p, u32 all, u32 size) {
    total = all;
    lo = 0;
    hi = kLastKey;
    rank = p.lower;
    behind = p.upper;
    found = lost = false;
    clear();
    inside = total;
    at = 0;
    room = size;
  }

  DEVICE void clear() { below = at_lo = inside = at_hi = kept = 0; }

  DEVICE u32 n() const { return kept < room ? kept : room; }
  DEVICE bool is_exact() const { return n() == inside; }
  DEVICE u32 first() const { return below + at_lo; }  // rank of those inside
  DEVICE bool is_inside(u32 r) const { return r >= first() && r - first() < inside; }
  DEVICE bool is_missed() const { return rank < below || behind >= first() + inside + at_hi; }

  // How many keys inside are within a standard deviation of where a sample has the rank.
  DEVICE double deviation() const {
    if (found || is_exact() || is_missed() || !is_inside(rank)) return 0;
    double part = (double)(rank - first()) / (double)inside;
    return __builtin_sqrt(part * (1 - part) / (double)n()) * (double)inside;
  }

  // Sets the ranks to look for among the kept keys: the rank and the one behind it if all keys are
  // kept, else those `spread` standard deviations to either side.
  DEVICE void seek(Sought* two, double spread) {
    two[0] = two[1] = Sought{0, 0, 0, 0};
    if (found || is_missed() || !(is_inside(rank) || is_inside(behind))) return;
    u32 bits = bits_between(lo, hi);
    if (is_exact()) {
      if (is_inside(rank)) two[0] = Sought{lo, bits, rank - first(), inside};
      if (is_inside(behind)) two[1] = Sought{lo, bits, behind - first(), inside};
      return;
    }
    double each = (double)inside / (double)n(), away = spread * deviation() / each + 2;
    double from = ((double)rank - (double)first()) / each - away;
    double to = ((double)behind - (double)first()) / each + away + 1;
    if (from >= 0) two[0] = Sought{lo, bits, (u32)from, n()};
    if (to < (double)n()) two[1] = Sought{lo, bits, (u32)to, n()};
    expected = ((to < (double)n() ? to : (double)n()) - (from > 0 ? from : 0)) * each;
  }

  // Narrows the range to the keys that seek asked for, or moves it beside, or has the result.
  DEVICE void narrow(const Sought* two) {
    if (found) return;
    u64 apart = hi - lo;
    if (rank < below) {
      expected = apart > 0 ? inside : below;
      hi = lo;
      lo = apart > 0 && apart < lo ? lo - apart : 0;
    } else if (is_missed()) {
      expected = apart > 0 ? inside : total - (first() + inside + at_hi);
      if (rank >= first() + inside) lo = hi;
      hi = apart > 0 && apart < kLastKey - hi ? hi + apart : kLastKey;
    } else if (is_exact() || !(is_inside(rank) || is_inside(behind))) {
      lower = is_inside(rank) ? two[0].from : rank < first() ? lo : hi;
      upper = is_inside(behind) ? two[1].from : behind < first() ? lo : hi;
      found = true;
    } else {
      lost = two[0].left + two[1].left == 0;
      if (two[0].left > 0) lo = two[0].from;
      if (two[1].left > 0) hi = two[1].from;
    }
  }
};

// Divides the block's memory among the ranges by how many keys are expected in each.
DEVICE void divide(Between* all, u32 some, u32 size) {
  double sum = 0;
  for (u32 s = 0; s < some; s++) sum += all[s].found ? 0 : all[s].expected + 1;
  u32 at = 0;
  for (u32 s = 0; s < some; s++) {
    Between& x = all[s];
    x.clear();
    x.at = at;
    x.room = x.found ? 0 : (u32)((double)size * (x.expected + 1) / sum);
    x.every = x.expected <= (double)x.room ? 1 : (u32)(2 * x.expected / (double)x.room) + 1;
    at += x.room;
  }
}

// Counts the keys below each range, at its ends and inside, and keeps those inside, or one in `every`.
DEVICE void count_between(const GroupRuns& runs, Between* all, u32 some, u64* keys) {
  u32 from[kAtATime], wide[kAtATime];  // the upper halves of the keys, which tell it for most
  u32 below[kAtATime], inside[kAtATime], skip[kAtATime];
  UNROLL for (u32 s = 0; s < kAtATime; s++) {
    bool open = s < some && !all[s].found;
    from[s] = open ? (u32)(all[s].lo >> 32) : kNoHalf;
    wide[s] = open ? (u32)(all[s].hi >> 32) - from[s] : 0;
    skip[s] = open ? 1 + (u32)((u64)all[s].every * thread_x() / threads_x()) : 0;
    below[s] = inside[s] = 0;
  }
  runs.each([&](u64 key) {
    UNROLL for (u32 s = 0; s < kAtATime; s++) {
      u32 half = key >> 32;
      below[s] += half < from[s];
      if (half - from[s] > wide[s]) continue;
      u64 lo = all[s].lo, hi = all[s].hi;
      if (key > lo && key < hi) {
        inside[s]++;
        if (--skip[s] > 0) continue;
        skip[s] = all[s].every;
        u32 at = atomic_next(&all[s].kept, 1);
        if (at < all[s].room) keys[all[s].at + at] = key;
      } else if (key == lo) {
        atomic_add(&all[s].at_lo, 1u);
      } else if (key == hi) {
        atomic_add(&all[s].at_hi, 1u);
      } else {
        below[s] += key < lo;
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

// Finds the keys of some ranks, at most kAtATime, of a group in a bucket, and reports whether all
// are found. keys has room for `size`.
DEVICE bool find_keys(const GroupRuns& runs, u32 total, Between* all, u32 some, u64* keys, u32 size) {
  SHARED Sought sought[kSought];
  u32 me = thread_x();
  // As many keys as make those between lo and hi fit afterwards, if there is room.
  double share = kSampled * total / size, enough = share * share + size / 8;
  // An odd step, so that it is not a multiple of the length of runs, of which most are even.
  u32 most = size - threads_x(), every = total <= size ? 1 : (total / (enough < most ? (u32)enough : most) + 1) | 1;
  runs.one_in(every, [&](u64 key) { keys[atomic_next(&all[0].kept, 1)] = key; });
  barrier();
  if (me > 0 && me < some) all[me].kept = all[0].kept;
  for (u32 round = 0;; round++) {
    barrier();  // what is kept is there
    double wide = 0;  // keys in ranges of a standard deviation
    for (u32 s = 0; s < some; s++) wide += 2 * all[s].deviation();
    double spread = kFilled * size / (wide + 1);
    spread = spread < 1.5 || spread > 3 ? 3 : spread;
    if (me < some) all[me].seek(sought + 2 * me, spread);
    find_ranks(sought, 2 * some, (u32*)found_runs(), [&](auto&& sink) {
      UNROLL for (u32 s = 0; s < kAtATime; s++) {
        if (s >= some || all[s].found) continue;
        const u64* mine = keys + all[s].at;
        for (u32 i = me, n = all[s].n(); i < n; i += threads_x()) {
          u64 key = mine[i];
          sink(2 * s, key);
          sink(2 * s + 1, key);
        }
      }
    });
    if (me < some) all[me].narrow(sought + 2 * me);
    barrier();
    bool found = true, lost = round == kRounds;
    for (u32 s = 0; s < some; s++) {
      found = found && all[s].found;
      lost = lost || all[s].lost;
    }
    if (found || lost) return found;
    barrier();  // all have read them
    if (me == 0) divide(all, some, size);
    barrier();
    count_between(runs, all, some, keys);
  }
}

// Finds the keys digit by digit, in nine visits of all keys at most.
DEVICE void find_keys_by_digits(const GroupRuns& runs, Between* all, u32 some, u32* room) {
  SHARED Sought sought[kSought];
  u32 me = thread_x();
  if (me < some) {
    sought[2 * me] = Sought{0, 64, all[me].rank, all[me].total};
    sought[2 * me + 1] = Sought{0, 64, all[me].behind, all[me].total};
  }
  find_ranks(sought, 2 * some, room, [&](auto&& sink) {
    runs.each([&](u64 key) {
      UNROLL for (u32 s = 0; s < kSought; s++) sink(s, key);
    });
  });
  if (me >= some) return;
  all[me].lower = sought[2 * me].from;
  all[me].upper = sought[2 * me + 1].from;
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

// The quantiles of all groups, with shared memory for `size` keys.
template <u32 size>
DEVICE void group_order_in(const GroupOrderJob& job) {
  SHARED u64 some_keys[size];
  SHARED Between ranges[kAtATime];
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
      if (me < some) ranges[me].begin(position_of(job.quantiles[from + me], total), total, size);
      barrier();
      if (!find_keys(runs, total, ranges, some, some_keys, size)) find_keys_by_digits(runs, ranges, some, (u32*)some_keys);
      if (me < some) {
        Between& r = ranges[me];
        double lower = of_sort_key(r.lower), upper = r.upper == r.lower ? lower : of_sort_key(r.upper);
        double weight = position_of(job.quantiles[from + me], total).weight;
        job.out[((u64)(from + me) * job.groups + g) * job.buckets + k] = between(lower, upper, weight);
      }
    }
  }
}
