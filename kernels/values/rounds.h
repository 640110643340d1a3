// Compensated sums of series at kSharedSteps steps, to which all threads of a block contribute.
//
// Only additions to a sum must wait for each other: what each of them loses by rounding depends on the sum
// before it alone. So series come in rounds, of which several are under way at once, with one barrier a round.
// Threads are rows of kSharedSteps: row 0 adds values, row 1 what was lost, both by the same instructions of one
// warp, and the others, the loaders, do the rest. Of the series of round 0, in round
//
//	0          1          2                 3             4                  5
//	loaders:   loaders:   loaders:          row 0:        loaders:           row 1:
//	place ───► load ────► keep values ────► sums ───────► what each lost ──► sum of that
#pragma once
#include "aggregate.h"
#include "rows.h"

const u32 kSharedSteps = 16;  // abi.SharedBlock, as is kLoaders + 2
const u32 kLoaders = 14;
const u32 kEach = 6;  // series of a loader in a round, which follow each other
const u32 kPairs = kEach / 2;
const u32 kRoundSeries = kLoaders * kEach;
const u64 kNowhere = ~0ull;

typedef F64x2 (*PairRows)[kSharedSteps];  // two series that follow each other, at each step

struct Rounds {
  F64x2 values[2][kRoundSeries / 2][kSharedSteps], lost[2][kRoundSeries / 2][kSharedSteps];
  double sums[2][kLoaders + 1][kSharedSteps];  // before the series of each loader
  u64 places[2][kRoundSeries];                 // of the first value of each series, or kNowhere
  u32 unsure[2];                               // a sum is not finite
};

// Adds what a round has to sum, and notes it before that of each loader.
DEVICE void add_round(PairRows rows, double (*sums)[kSharedSteps], bool notes, double& sum) {
  F64x2 v[kEach], ahead[kEach];  // of two loaders
  UNROLL for (u32 j = 0; j < kEach; j++) ahead[j] = rows[j][thread_x()];
  NO_UNROLL for (u32 i = 0; i < kLoaders; i += 2) {
    UNROLL for (u32 j = 0; j < kEach; j++) v[j] = ahead[j];
    if (i + 2 < kLoaders) rows += kEach;
    UNROLL for (u32 j = 0; j < kEach; j++) ahead[j] = rows[j][thread_x()];
    UNROLL for (u32 j = 0; j < kEach; j++) {
      if (notes && j % kPairs == 0) sums[i + j / kPairs][thread_x()] = sum;
      sum += v[j][0];
      sum += v[j][1];
    }
  }
}

// Adds the series of a group to s, which is then that of row 0, and returns how far it came: not to the end if a sum
// is not finite. The others must be added one by one.
DEVICE u32 add_in_rounds(const Column& c, u32 from, u32 to, Rounds& b, State& s) {
  u32 x = thread_x(), y = thread_y(), loader = y - 2, rounds = (to - from + kRoundSeries - 1) / kRoundSeries;
  u32 found = loader * kSharedSteps + x;  // the series of a round that a loader's thread finds the place of
  bool sums = y == 0, adds = y < 2, finds = !adds && found < kRoundSeries;
  double sum = sums ? s.value : s.lost, next[kEach] = {};
  u32 row = 0, n = 0, had = 0, now = 0;  // had and now: values of rounds r-3 and r-2
  auto find = [&](u32 i) { return c.rows[i < to ? i : to - 1]; };
  if (finds) row = find(from + found);
  barrier();  // of the group before nothing is read any more
  if (x == 0 && adds) b.unsure[y] = 0;
  barrier();
  for (u32 r = 0; r < rounds + 5; r++) {
    u32 cur = r & 1, at = from + r * kRoundSeries + found;
    double was = sum;
    if (adds) {
      if (r - (sums ? 3 : 5) < rounds) add_round((sums ? b.values : b.lost)[!cur], b.sums[!cur], sums, sum);
      if (sums && (s.running || !is_finite(sum))) b.unsure[cur] = 1;
    } else {
      PairRows values = b.values[cur] + loader * kPairs, lost = b.lost[cur] + loader * kPairs;
      F64x2 v[kPairs];  // of round r-4, whose place those of r-2 take
      UNROLL for (u32 j = 0; j < kPairs; j++) v[j] = values[j][x];
      n += r - 4 < rounds ? had : 0;
      had = now;
      now = 0;
      UNROLL for (u32 j = 0; j < kPairs; j++) {
        // -0 stands for no value: adding it changes nothing.
        bool one = as_bits(next[2 * j]) != kAbsent, other = as_bits(next[2 * j + 1]) != kAbsent;
        values[j][x] = F64x2{one ? next[2 * j] : -0.0, other ? next[2 * j + 1] : -0.0};
        now += one;
        now += other;
      }
      if (r > 0) UNROLL for (u32 j = 0; j < kEach; j++) {
        u64 place = b.places[!cur][loader * kEach + j];
        next[j] = place != kNowhere ? c.values[place] : as_double(kAbsent);
      }
      double before = b.sums[cur][loader][x];
      UNROLL for (u32 j = 0; j < kPairs; j++) {
        double middle = before + v[j][0], after = middle + v[j][1];
        lost[j][x] = F64x2{lost_by(before, v[j][0], middle), lost_by(middle, v[j][1], after)};
        before = after;
      }
      if (finds) {
        b.places[cur][found] = at < to ? (u64)row * c.steps : kNowhere;
        row = find(at + kRoundSeries);
      }
    }
    barrier();
    if (!b.unsure[cur]) continue;
    if (sums) sum = was;
    if (r < rounds + 3) rounds = r < 3 ? 0 : r - 3;
  }
  if (!sums) b.sums[0][y - 1][x] = adds ? sum : n;
  barrier();
  if (!sums) return to;
  s.value = sum;
  s.lost = b.sums[0][0][x];
  for (u32 i = 1; i <= kLoaders; i++) s.n += (u32)b.sums[0][i][x];
  return to - from < rounds * kRoundSeries ? to : from + rounds * kRoundSeries;
}
