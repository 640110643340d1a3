// States of runs: what is known of the samples of a bucket, how two are merged, and what
// aggregates make of them. All of it makes the operations of package resample/aggregate in
// their order.
#pragma once
#include "../abi/resample.h"
#include "../values/aggregate.h"
#include "blocks.h"

// What is known of a run. Only the parts that it was made with mean something.
struct RunState {
  u32 n;
  double sum;
  double lost;  // what the sum lacks by rounding; of a sum that is not finite, the mean
  double min, max;
  double first, last;
  i64 first_at, last_at;
  double squares;                // squared distances from the mean, added up
  // Values times the ms that they held, what that lacks or, where it is not finite, the mean, and those
  // ms; see Run::end.
  double area, area_lost, span;

  DEVICE double mean() const {
    if (!is_finite(sum)) return lost;
    return sum / n + lost / n;
  }
  // Makes the sum that of n values with the given mean.
  DEVICE void set_sum(double mean, double n) {
    sum = mean * n;
    lost = is_finite(sum) ? 0 : mean;
  }
  // The mean by the time that values held.
  DEVICE double weighted_mean() const {
    if (!is_finite(area)) return area_lost;
    return (area + area_lost) / __builtin_fabs(span);
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

// The number of fields of a state with those parts, besides its samples.
DEVICE u32 fields_of(Parts parts) {
  u32 f = 0;
  if (parts & kSumPart) f += 2;
  if (parts & kExtremesPart) f += 2;
  if (parts & kEndsPart) f += 4;
  if (parts & kSquaresPart) f += 1;
  if (parts & kWeightedPart) f += 3;
  return f;
}

// States in device memory, rows of buckets: fields of each four neighbouring buckets of a row lie side by side, so
// that what is stored at once is contiguous.
//
//	row 0: field 0 of buckets 0 to 3 │ field 1 of them │ … ║ field 0 of buckets 4 to 7 │ … ║ row 1: …
//
// A row of fields has whole blocks; counts have no gaps.
struct States {
  u32* __restrict__ n;  // 0 where there is no run
  double* __restrict__ fields;
  u32 buckets;
  Parts parts;

  DEVICE u64 count_at(u32 row, u32 k) const { return (u64)row * buckets + k; }

  // The first field of a part of bucket k of a row; those that follow lie kBlock apart.
  DEVICE double* part(Parts p, u32 row, u32 k) const { return block(row, k) + fields_of(parts & (p - 1)) * kBlock; }

  DEVICE RunState load(u32 row, u32 k, Parts wanted) const {
    RunState s = load_fields(row, k, wanted & parts);
    s.n = n[count_at(row, k)];
    return s;
  }

  // The same without the count, of parts that there are.
  DEVICE RunState load_fields(u32 row, u32 k, Parts wanted) const {
    RunState s{};
    if (wanted & kSumPart) {
      const double* f = part(kSumPart, row, k);
      s.sum = f[0], s.lost = f[kBlock];
    }
    if (wanted & kExtremesPart) {
      const double* f = part(kExtremesPart, row, k);
      s.min = f[0], s.max = f[kBlock];
    }
    if (wanted & kEndsPart) {
      const double* f = part(kEndsPart, row, k);
      s.first = f[0], s.last = f[kBlock], s.first_at = as_bits(f[2 * kBlock]), s.last_at = as_bits(f[3 * kBlock]);
    }
    if (wanted & kSquaresPart) s.squares = *part(kSquaresPart, row, k);
    if (wanted & kWeightedPart) {
      const double* f = part(kWeightedPart, row, k);
      s.area = f[0], s.area_lost = f[kBlock], s.span = f[2 * kBlock];
    }
    return s;
  }

  // Stores the wanted parts but for the count.
  DEVICE void store(u32 row, u32 k, const RunState& s, Parts wanted) const {
    store_fields(s, wanted, parts, block(row, k), kBlock);
  }

  // The same, of those that a state with those parts has, whose first field is at `to` and the others `apart`.
  DEVICE static void store_fields(const RunState& s, Parts wanted, Parts parts, double* to, u32 apart) {
    auto next = [&](double v) { *to = v, to += apart; };
    auto has = [&](Parts p) {
      if (!(wanted & p)) to += fields_of(parts & p) * apart;
      return wanted & parts & p;
    };
    if (has(kSumPart)) next(s.sum), next(s.lost);
    if (has(kExtremesPart)) next(s.min), next(s.max);
    if (has(kEndsPart)) next(s.first), next(s.last), next(as_double(s.first_at)), next(as_double(s.last_at));
    if (has(kSquaresPart)) next(s.squares);
    if (has(kWeightedPart)) next(s.area), next(s.area_lost), next(s.span);
  }

 private:
  DEVICE double* block(u32 row, u32 k) const { return fields + field_at(row, k, buckets, fields_of(parts)); }
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
  lost += o_lost;
}

// v, or the largest number of its sign if v is infinite by rounding.
DEVICE double bounded(double v) {
  const double largest = 0x1.fffffffffffffp1023;
  return v > largest ? largest : v < -largest ? -largest : v;
}

// The mean of two means of weights a and b. Of finite ones it is finite.
DEVICE double mean_of_two(double x, double a, double y, double b) {
  double mean = x * (a / (a + b)) + y * (b / (a + b));
  return is_finite(x) && is_finite(y) ? bounded(mean) : mean;
}

// Merges areas of runs. What holds for no time counts only where nothing else is.
DEVICE void merge_areas(RunState& s, const RunState& o) {
  if ((s.span > 0) != (o.span > 0)) {
    if (o.span > 0) s.area = o.area, s.area_lost = o.area_lost, s.span = o.span;
    return;
  }
  double area = s.area, lost = s.area_lost;
  merge_sums(o.area, o.area_lost, area, lost);
  if (!is_finite(area)) lost = mean_of_two(s.weighted_mean(), s.span, o.weighted_mean(), o.span);
  s.area = area;
  s.area_lost = lost;
  s.span += o.span;
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

// Quotients by a whole number below 2^34, without the branches of a division.
struct Divisor {
  double n, inverse;

  DEVICE explicit Divisor(double n) : n(n), inverse(rough_reciprocal(n)) {
    inverse = fused_multiply_add(inverse, fused_multiply_add(-n, inverse, 1), inverse);
    inverse = fused_multiply_add(inverse, fused_multiply_add(-n, inverse, 1), inverse);
  }

  // a/n, correctly rounded: the first quotient is off by some units of its last place, so that what it leaves is
  // exact, and a quotient by so few bits is never as near to the middle of two numbers as the second one errs.
  // Where a is not finite, or tiny, `sure` becomes false.
  DEVICE double divide(double a, bool& sure) const {
    u32 exponent = (u32)(as_bits(a) >> 52) & 0x7ff;
    sure = sure && (exponent - 128 < 1792 || a == 0);
    double q = a * inverse;
    return fused_multiply_add(fused_multiply_add(-q, n, a), inverse, q);
  }

  // The mean of n values as a sum of two numbers, as RunState::long_mean has it of a finite sum.
  DEVICE void long_mean(const RunState& s, double& hi, double& lo, bool& sure) const {
    hi = divide(s.sum, sure);
    lo = divide(fused_multiply_add(-hi, n, s.sum) + s.lost, sure);
  }
};

// squares_of_merging where `sure` stays true.
DEVICE double squares_of_merging(const RunState& s, const RunState& o, bool& sure) {
  Divisor a((double)s.n), b((double)o.n), both((double)s.n + (double)o.n);
  double hi, lo, o_hi, o_lo;
  a.long_mean(s, hi, lo, sure);
  b.long_mean(o, o_hi, o_lo, sure);
  double d = (o_hi - hi) + (o_lo - lo);
  return o.squares + (d * d) * both.divide(a.n * b.n, sure);
}

// Merges o, the state of a run that comes later in the order of series, into s, but for squared
// distances.
DEVICE void merge(RunState& s, const RunState& o, Parts parts) {
  if (parts & kSumPart) {
    double sum = s.sum, lost = s.lost;
    merge_sums(o.sum, o.lost, sum, lost);
    if (is_finite(sum)) {
      s.sum = sum;
      s.lost = lost;
    } else {  // the mean says what the sum is: partial sums may have overflowed to either side
      double a = s.n, b = o.n;
      s.set_sum(mean_of_two(s.mean(), a, o.mean(), b), a + b);
    }
  }
  if (parts & kExtremesPart) {
    if (o.min < s.min || s.min != s.min) s.min = o.min;
    if (o.max > s.max || s.max != s.max) s.max = o.max;
  }
  if (parts & kEndsPart) {
    if (o.first_at < s.first_at) s.first = o.first, s.first_at = o.first_at;
    if (o.last_at > s.last_at) s.last = o.last, s.last_at = o.last_at;
  }
  if (parts & kWeightedPart) merge_areas(s, o);
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
    case kWeightedMeanOf: return s.weighted_mean();
    case kCountOf:
    default: return s.n;
  }
}
