// map_values: applies a function or an operator with constants to the output of a window
// kernel.
//
// Computes: values[i] = f(values[i], a, b), in place, kAbsent where a comparison does not hold,
//   or, with `truth`, 1 and 0. The values that a comparison without `truth` leaves it counts
//   in remaining[series].
// Grid: x series, four a block of 128 threads; y ranges of `length` steps.
// A thread owns one series at every 32nd step of a range: values[series*steps+step].
// Bytes per series and step: reads 8, writes 8.
// Operations per series and step: 1 to 6, and the choice of f.
#include "../abi/functions.h"
#include "../abi/series.h"

// The lesser and the greater of two values as Go's math.Min and math.Max have them.
DEVICE double least_of(double a, double b) {
  if (a == -__builtin_inf() || b == -__builtin_inf()) return -__builtin_inf();
  if (a != a || b != b) return __builtin_nan("");
  if (a == 0 && b == 0) return as_bits(a) >> 63 ? a : b;
  return a < b ? a : b;
}

DEVICE double greatest_of(double a, double b) {
  if (a == __builtin_inf() || b == __builtin_inf()) return __builtin_inf();
  if (a != a || b != b) return __builtin_nan("");
  if (a == 0 && b == 0) return as_bits(a) >> 63 ? b : a;
  return a > b ? a : b;
}

DEVICE double mapped(Map map, double v, double a, double b) {
  switch (map) {
    case kNegate: return -v;
    case kAbs: return __builtin_fabs(v);
    case kCeil: return __builtin_ceil(v);
    case kFloor: return __builtin_floor(v);
    case kSign: return v < 0 ? -1 : v > 0 ? 1 : v;
    case kRoot: return __builtin_sqrt(v);
    case kRound: return __builtin_floor(v * a + 0.5) / a;
    case kClamp: return greatest_of(a, least_of(b, v));
    case kAdd: return v + a;
    case kSubtract: return v - a;
    case kSubtractFrom: return a - v;
    case kMultiply: return v * a;
    case kDivide: return v / a;
    case kDivideInto: return a / v;
    case kScale: return v * a / b;
    default: return v;
  }
}

DEVICE bool holds(Map map, double v, double a) {
  switch (map) {
    case kEqual: return v == a;
    case kUnequal: return v != a;
    case kGreater: return v > a;
    case kLess: return v < a;
    case kAtLeast: return v >= a;
    case kAtMost: return v <= a;
    default: return false;
  }
}

KERNEL MAX_THREADS(128) map_values(double* __restrict__ values, u32 series, u32 steps, u32 length, Map map, Flag truth,
                                   double a, double b, u32* __restrict__ remaining) {
  u32 row = (block_x() * threads_x() + thread_x()) / 32, from = block_y() * length;
  if (row >= series) return;
  u32 to = from + length < steps ? from + length : steps, left = 0;
  double* at = values + (u64)row * steps;
  for (u32 k = from + thread_x() % 32; k < to; k += 32) {
    double v = at[k];
    if (as_bits(v) == kAbsent) continue;
    if (map < kFirstComparison) {
      v = mapped(map, v, a, b);
      // A NaN that looks like no value is one nevertheless.
      at[k] = v == v ? v : __builtin_nan("");
    } else if (truth) {
      at[k] = holds(map, v, a);
    } else if (holds(map, v, a)) {
      left++;
    } else {
      at[k] = as_double(kAbsent);
    }
  }
  if (left) atomic_add(&remaining[row], left);
}
