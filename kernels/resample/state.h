// States of runs: what is known of the samples of a bucket, how two are merged, and what
// aggregates make of them. All of it makes the operations of package resample/aggregate in
// their order.
#pragma once
#include "../abi/resample.h"
#include "../values/aggregate.h"

// What is known of a run. Only the parts that it was made with mean something.
struct RunState {
  u32 n;
  double sum;
  double lost;  // what the sum lacks by rounding; of a sum that is not finite, the mean
  double min, max;
  double first, last;
  i64 first_at, last_at;
  double squares;                // squared distances from the mean, added up
  double area, area_lost, span;  // values times the ms that they held, and those ms

  DEVICE double mean() const {
    if (!is_finite(sum)) return lost;
    return sum / n + lost / n;
  }
  // The mean as a sum of two numbers.
  DEVICE void long_mean(double& hi, double& lo) const {
    hi = lost;
    lo = 0;
    if (!is_finite(sum)) return;
    hi = sum / n;
    lo = (fused_multiply_add(-hi, n, sum) + lost) / n;
  }
};

// States in device memory, a field after the other: field f of state i is fields[f*cells+i].
struct States {
  u32* __restrict__ n;  // 0 where there is no run
  double* __restrict__ fields;
  u64 cells;
  Parts parts;

  // The number of fields before those of a part.
  DEVICE u32 first_field(Parts part) const {
    u32 f = 0;
    if (part > kSumPart && (parts & kSumPart)) f += 2;
    if (part > kExtremesPart && (parts & kExtremesPart)) f += 2;
    if (part > kEndsPart && (parts & kEndsPart)) f += 4;
    if (part > kSquaresPart && (parts & kSquaresPart)) f++;
    return f;
  }

  DEVICE double* field(u64 i, u32& f) const { return fields + (f++) * cells + i; }

  DEVICE RunState load(u64 i, Parts wanted) const {
    RunState s = load_fields(i, wanted);
    s.n = n[i];
    return s;
  }

  // The same without the count.
  DEVICE RunState load_fields(u64 i, Parts wanted) const {
    RunState s{};
    u32 f = 0;
    if (parts & kSumPart) {
      double *sum = field(i, f), *lost = field(i, f);
      if (wanted & kSumPart) s.sum = *sum, s.lost = *lost;
    }
    if (parts & kExtremesPart) {
      double *min = field(i, f), *max = field(i, f);
      if (wanted & kExtremesPart) s.min = *min, s.max = *max;
    }
    if (parts & kEndsPart) {
      double *first = field(i, f), *last = field(i, f), *first_at = field(i, f), *last_at = field(i, f);
      if (wanted & kEndsPart) s.first = *first, s.last = *last, s.first_at = as_bits(*first_at), s.last_at = as_bits(*last_at);
    }
    if (parts & kSquaresPart) {
      double* squares = field(i, f);
      if (wanted & kSquaresPart) s.squares = *squares;
    }
    if (parts & kWeightedPart) {
      double *area = field(i, f), *lost = field(i, f), *span = field(i, f);
      if (wanted & kWeightedPart) s.area = *area, s.area_lost = *lost, s.span = *span;
    }
    return s;
  }

  // Stores the wanted parts, of those that there are, but for the count.
  DEVICE void store(u64 i, const RunState& s, Parts wanted) const {
    u32 f = 0;
    if (parts & kSumPart) {
      double *sum = field(i, f), *lost = field(i, f);
      if (wanted & kSumPart) *sum = s.sum, *lost = s.lost;
    }
    if (parts & kExtremesPart) {
      double *min = field(i, f), *max = field(i, f);
      if (wanted & kExtremesPart) *min = s.min, *max = s.max;
    }
    if (parts & kEndsPart) {
      double *first = field(i, f), *last = field(i, f), *first_at = field(i, f), *last_at = field(i, f);
      if (wanted & kEndsPart) *first = s.first, *last = s.last, *first_at = as_double(s.first_at), *last_at = as_double(s.last_at);
    }
    if (parts & kSquaresPart) {
      double* squares = field(i, f);
      if (wanted & kSquaresPart) *squares = s.squares;
    }
    if (parts & kWeightedPart) {
      double *area = field(i, f), *lost = field(i, f), *span = field(i, f);
      if (wanted & kWeightedPart) *area = s.area, *lost = s.area_lost, *span = s.span;
    }
  }
};

// The state of one value, whose time does not matter.
DEVICE RunState state_of(double v) {
  RunState s{};
  s.n = 1;
  s.sum = 0.0 + v;
  s.lost = is_finite(v) ? 0 : v;
  s.min = s.max = v;
  s.squares = v - v;  // not a number if v is not finite
  return s;
}

// Adds the sum o, which lacks o_lost, to sum.
DEVICE void merge_sums(double o, double o_lost, double& sum, double& lost) {
  add_compensated(o, sum, lost);
  if (!infinite(sum)) lost += o_lost;
}

// What merging o into s adds to the squared distances from the mean of s: those of o, and what the
// means are apart.
DEVICE double squares_of_merging(const RunState& s, const RunState& o) {
  double a = s.n, b = o.n, hi, lo, o_hi, o_lo;
  s.long_mean(hi, lo);
  o.long_mean(o_hi, o_lo);
  double d = (o_hi - hi) + (o_lo - lo);
  return o.squares + (d * d) * (a * b / (a + b));
}

// Merges o, the state of a run that comes later in the order of series, into s, but for squared
// distances.
DEVICE void merge(RunState& s, const RunState& o, Parts parts) {
  if (parts & kSumPart) {
    double sum = s.sum, lost = s.lost;
    merge_sums(o.sum, o.lost, sum, lost);
    if (!is_finite(sum)) {
      double a = s.n, b = o.n, n = a + b;
      lost = s.mean() * (a / n) + o.mean() * (b / n);
    }
    s.sum = sum;
    s.lost = lost;
  }
  if (parts & kExtremesPart) {
    if (o.min < s.min || s.min != s.min) s.min = o.min;
    if (o.max > s.max || s.max != s.max) s.max = o.max;
  }
  if (parts & kEndsPart) {
    if (o.first_at < s.first_at) s.first = o.first, s.first_at = o.first_at;
    if (o.last_at > s.last_at) s.last = o.last, s.last_at = o.last_at;
  }
  if (parts & kWeightedPart) {
    merge_sums(o.area, o.area_lost, s.area, s.area_lost);
    s.span += o.span;
  }
  s.n += o.n;
}

// The parts that an aggregate reads.
DEVICE Parts parts_of(Aggregate a) {
  switch (a) {
    case kSumOf:
    case kMeanOf: return kSumPart;
    case kMinOf:
    case kMaxOf:
    case kRangeOf: return kExtremesPart;
    case kDeviationOf:
    case kVarianceOf: return kSquaresPart;
    case kFirstOf:
    case kLastOf: return kEndsPart;
    case kWeightedMeanOf: return kWeightedPart;
    default: return 0;
  }
}

// The aggregate of a state of at least one sample.
DEVICE double result_of(Aggregate a, const RunState& s) {
  switch (a) {
    case kSumOf: return infinite(s.sum) ? s.sum : s.sum + s.lost;
    case kMeanOf: return s.mean();
    case kMinOf: return s.min;
    case kMaxOf: return s.max;
    case kRangeOf: return s.max - s.min;
    case kDeviationOf: return __builtin_sqrt(s.squares / s.n);
    case kVarianceOf: return s.squares / s.n;
    case kFirstOf: return s.first;
    case kLastOf: return s.last;
    case kWeightedMeanOf: return infinite(s.area) ? s.area : (s.area + s.area_lost) / s.span;
    default: return s.n;
  }
}
