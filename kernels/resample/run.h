// A run while it is counted: the samples of one series in one bucket, of which all parts of the
// state are made in one visit.
#pragma once
#include "../values/step_range.h"
#include "../window/walker.h"
#include "buckets.h"
#include "state.h"

// What kernels over the runs of a batch's series are given: the series (tiles of them, and of
// each the tiles of chunks), the buckets, of which a thread owns `length`, whether no two of them
// overlap, and whether differences between consecutive samples from time `since` on, in ms, take
// the place of samples.
#define RUNS_PARAMETERS \
  COLUMNS_PARAMETERS, BUCKETS_PARAMETERS, u32 length, Flag apart, Flag differences, i64 since

// The job of this thread, made of its parameters.
#define RUNS_JOB \
  RunsJob { COLUMNS, first, BUCKETS, my_steps(buckets, length), apart != 0, differences != 0, since }

struct RunsJob {
  Columns c;
  const u32* __restrict__ first;
  Buckets buckets;
  StepRange mine;
  bool apart, differences;
  i64 since;

  // Whether the thread owns anything. All lanes of its warp do, or none.
  DEVICE bool owns(u32 tiles) const { return mine.tile < tiles && mine.from < buckets.count; }

  // The thread's series, and where its state of bucket k goes.
  DEVICE u32 series() const { return mine.tile * 32 + mine.lane; }
  DEVICE u64 cell(u32 k) const { return (u64)series() * buckets.count + k; }
};

// Samples of a series in order, or differences between them.
struct Source {
  Walker at;
  double before;  // the value of the sample before the one here; of differences

  // The value that the sample here stands for, if its value is v.
  template <bool differences>
  DEVICE double value(double v) {
    if (!differences) return v;
    double d = v < before ? v : v - before;  // a counter that falls began anew at 0
    before = v;
    return d;
  }
};

// Goes to the first sample, or difference, of a time that is not before t.
template <bool differences>
NOINLINE Source source_from(RunsJob job, i64 t) {
  Source s{};
  u32 tile = job.mine.tile, begin = job.first[tile], end = job.first[tile + 1];
  if (!differences) {
    seek(s.at, job.c, job.mine.lane, begin, end, t - 1);
    return s;
  }
  // The sample before it may be in an earlier chunk.
  i64 from = job.since;
  seek(s.at, job.c, job.mine.lane, begin, end, (t > from ? t : from) - 1);
  Walker w = s.at;
  u32 i = w.i, k = w.tile;
  while (i == 0 && k > begin) i = job.c.samples(--k, job.mine.lane);
  if (i > 0) {
    w.tile = k;
    if (k < s.at.tile) enter(w, job.c);
    if (time(w, i - 1) >= from) {
      s.before = value(w, i - 1);
      return s;
    }
  }
  if (s.at.n > 0) {
    s.before = value_at(s.at);
    next(s.at, job.c);
  }
  return s;
}

// Adds v to sum, and to lost what the addition rounds off, by Knuth's formula. If something
// overflows, one of them is not finite in the end.
DEVICE void add_finite(double v, double& sum, double& lost) {
  double t = sum + v, b = t - sum;
  lost += (sum - (t - b)) + (v - b);
  sum = t;
}

// So that no area of finite values overflows: 2^-64.
const double kAreaScale = 1.0 / 4294967296.0 / 4294967296.0;

// The sums of a run of which one overflows or has values that are not finite: the sum with the mean, and
// the area times kAreaScale. The whole area is not finite where the state says so.
struct SureSums {
  double sum, lost;
  State mean;
  double area, area_lost, last;
  i64 last_at;

  DEVICE void begin() { *this = SureSums{0, 0, State{0, 0, 0, 0}, 0, 0, 0, 0}; }

  DEVICE void add(i64 t, double v) {
    if (mean.n > 0) held(t);
    add_compensated(v, sum, lost);
    add_value<kAvg>(mean, v);
    last = v;
    last_at = t;
  }

  DEVICE void held(i64 until) {
    if (until > last_at) add_compensated(last * kAreaScale * (double)(until - last_at), area, area_lost);
  }

  // Gives the sums to s, whose window ends at `until`.
  DEVICE void give(RunState& s, i64 until) {
    s.sum = sum;
    s.lost = is_finite(sum) ? lost : result<kAvg>(mean);
    if (is_finite(s.area)) return;
    held(until);
    double weighted = (area + area_lost) / s.span / kAreaScale;
    s.area_lost = s.span < 0 ? s.area : is_finite(area) ? bounded(weighted) : weighted;
  }
};

// Makes the sums of bucket k anew, sample by sample.
template <bool differences>
NOINLINE SureSums sums_again(RunsJob job, u32 k) {
  Source s = source_from<differences>(job, job.buckets.start(k));
  SureSums all;
  all.begin();
  for (i64 end = job.buckets.end(k); s.at.t < end; next(s.at, job.c)) {
    i64 t = s.at.t;
    all.add(t, s.value<differences>(value_at(s.at)));
  }
  return all;
}

// What requests mostly ask for: what kernels have a loop for.
const Parts kSums = kCountPart | kSumPart | kMeanPart;
const Parts kUsual = kSums | kExtremesPart | kEndsPart | kSquaresPart;
const Parts kAllParts = kUsual | kWeightedPart;

// A run of which the parts `made` are made, or fewer.
template <Parts made>
struct Run {
  RunState s;
  double one, one_lost, two, two_lost;  // distances from the first value, and their squares
  double d1, d2;                        // of a block, not yet in these

  DEVICE void begin() {
    s = RunState{};
    one = one_lost = two = two_lost = d1 = d2 = 0;
  }

  DEVICE void held(i64 until) {
    if (until > s.last_at) add_compensated(s.last * (double)(until - s.last_at), s.area, s.area_lost);
  }

  DEVICE void flush() {
    add_finite(d1, one, one_lost);
    add_finite(d2, two, two_lost);
    d1 = d2 = 0;
  }

  // Notes the time of a sample before it is added, and of the last one that was added.
  DEVICE void from(i64 t) {
    if (s.n == 0) s.first_at = s.last_at = t;
  }
  DEVICE void upto(i64 t) { s.last_at = t; }

  // Notes the value of the first sample before that is added.
  DEVICE void first(double v) { s.first = s.min = s.max = v; }

  // Adds a sample, which added() counts. Its time matters only where runs are `timed`.
  static constexpr bool timed = (made & kWeightedPart) != 0, ends = (made & kEndsPart) != 0;
  static constexpr bool blocks = (made & kSquaresPart) != 0;

  DEVICE void add(i64 t, double v) {
    if (timed) {
      held(t);
      s.last_at = t;
    }
    s.last = v;
    if (made & kSumPart) add_finite(v, s.sum, s.lost);
    if (made & kExtremesPart) {
      bool number = v == v;
      if (number && !(v >= s.min)) s.min = v;
      if (number && !(v <= s.max)) s.max = v;
    }
    if (made & kSquaresPart) {
      double d = v - s.first;
      d1 += d;
      d2 += d * d;
    }
  }

  // Counts samples that were added, but none behind the next multiple of 8.
  DEVICE void added(u32 many) {
    s.n += many;
    if ((made & kSquaresPart) && s.n % 32 == 0) flush();
  }

  // Ends a run of at least one sample, whose window ends at `until`, but for its squares. One sample at
  // the end of its window holds for no time: its area is that value, and its span -1.
  DEVICE void end(i64 until) {
    if (!(made & kWeightedPart)) return;
    held(until);
    s.span = (double)(until - s.first_at);
    if (s.span == 0) {
      s.area = s.last;
      s.span = -1;
    }
  }

  // Whether the sums are of finite values and do not overflow.
  DEVICE bool sure() const { return is_finite(s.sum) && is_finite(s.lost) && is_finite(s.area); }

  // Makes the squared distances, once the sum is right.
  DEVICE void square() {
    if (!(made & kSquaresPart)) return;
    if (s.n % 32 != 0) flush();
    double all = one + one_lost;
    double v = two - all * all / (double)s.n + two_lost;
    s.squares = v < 0 ? 0 : v;
    // Of finite values that are too large to be squared.
    if (!is_finite(two) && is_finite(s.mean())) s.squares = two;
  }
};
