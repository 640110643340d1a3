// sum, avg, min and max over time, as policies and of runs of rows.
#pragma once
#include "policy.h"
#include "rows.h"

// One of them, by Prometheus's operations.
template <Operator op>
struct Over {
  State s;
  DEVICE void begin(const Beginning&) { s = State{0, 0, 0, 0}; }
  DEVICE void add(u32 n, i64, double v) {
    s.n = n;
    add_over_time<op>(s, v);
  }
  DEVICE Found found(u32 n, i64, i64) const { return value_of_all(result<op>(s), n); }
  DEVICE bool failed() const { return false; }
};

// avg alone, while sums are finite: a mean is that of the sum then. A sum that begins with
// -0 has the bits of one that begins with the first value. It fails where a sum is not.
struct FiniteMean {
  double sum, lost;
  bool overflow;
  DEVICE void begin(const Beginning&) {
    sum = -0.0;
    lost = 0;
  }
  DEVICE void add(u32, i64, double v) { add_compensated(v, sum, lost); }
  DEVICE Found found(u32 n, i64, i64) {
    overflow = overflow || infinite(sum) || sum != sum;
    double rest = lost;
    if (rest != 0) rest /= n;  // dividing zero takes a GPU long
    return value_of_all(sum / n + rest, n);
  }
  DEVICE bool failed() const { return overflow; }
};

// Any of them in one loop, because the driver compiles every loop of a kernel at start.
struct AnyOver {
  Operator op;
  State s;
  DEVICE void begin(const Beginning&) { s = State{0, 0, 0, 0}; }
  DEVICE void add(u32, i64, double v) {
    switch (op) {
      case kSum: add_over_time<kSum>(s, v); break;
      case kAvg: add_over_time<kAvg>(s, v); break;
      case kMin: add_over_time<kMin>(s, v); break;
      default: add_over_time<kMax>(s, v);
    }
  }
  DEVICE Found found(u32 n, i64, i64) const {
    return value_of_all(op == kSum ? result<kSum>(s) : op == kAvg ? result<kAvg>(s) : s.value, n);
  }
  DEVICE bool failed() const { return false; }
};

// The least or the most of stored integers.
struct Least {
  u32 u = ~0u;
  DEVICE void add(u32 v) { u = v < u ? v : u; }
};

struct Most {
  u32 u = 0;
  DEVICE void add(u32 v) { u = v > u ? v : u; }
};

// The sum of stored integers.
struct Amount {
  u64 sum = 0;
  DEVICE void add(u32 u) { sum += u; }
};

// The largest of values whose signs are turned by `turn`: of -v that is the smallest. NaN stands for
// none, and gives way to any value, as in add_next.
struct Largest {
  double value;
  u64 turn;
  DEVICE void add(double v) {
    v = as_double(as_bits(v) ^ turn);
    if (value < v || value != value) value = v;
  }
};

// A compensated sum, which says nothing where it is not finite.
struct FiniteSum {
  double sum, lost;
  DEVICE void add(double v) { add_compensated_finite(v, sum, lost); }
};

// The same of stored integers.
struct ScaledSum {
  Scale scale;
  FiniteSum s;
  DEVICE void add(u32 u) { s.add(scale(u)); }
};

template <class A>
DEVICE u32 integer_of(const Walker& w, u32 from, u32 n) {
  A a;
  add_integers(w, from, n, a);
  return a.u;
}

// The bit that turns the signs of values for an operator: of -v the largest is that of the smallest v.
DEVICE u64 turn_of(Operator op) { return op == kMin ? 1ull << 63 : 0; }

// The largest of a value, NaN for none, and n rows, all of them turned.
DEVICE double largest_of(u64 turn, double value, const Walker& w, u32 from, u32 n) {
  Largest all{value, turn};
  if ((w.kind & kValuesOf) == kWhole) {
    add_values(w, from, n, all);
  } else {
    all.add(Scale(w)(turn ? integer_of<Least>(w, from, n) : integer_of<Most>(w, from, n)));
  }
  return all.value;
}

// One of the four of a window, made of runs of rows.
struct OverRows {
  Operator op;
  double value;  // a sum, or the largest of turned values
  double lost = 0;
  u32 n = 0;
  double most = 0;    // no value is larger than that
  bool exact = true;  // sums have been integers without rounding
  DEVICE explicit OverRows(Operator op) : op(op), value(op == kSum || op == kAvg ? 0 : __builtin_nan("")) {}

  DEVICE void rows(const Walker& w, u32 from, u32 count) {
    n += count;
    if (op == kSum || op == kAvg) {
      sum(w, from, count);
    } else {
      value = largest_of(turn_of(op), value, w, from, count);
    }
  }

  DEVICE void sum(const Walker& w, u32 from, u32 count) {
    FiniteSum s{value, lost};
    if ((w.kind & kValuesOf) == kWhole) {
      exact = false;
      add_values(w, from, count, s);
    } else {
      double bound = __builtin_fabs(w.base) + 4294967296.0;  // above all values of the chunk
      if (bound > most) most = bound;
      exact = exact && !(w.kind & kDecimals) && (double)n * most <= 9007199254740992.0;  // 2^53
      if (exact) {
        Amount a;
        add_integers(w, from, count, a);
        s.sum += (double)count * w.base + (double)a.sum;
      } else {
        ScaledSum scaled{Scale(w), s};
        add_integers(w, from, count, scaled);
        s = scaled.s;
      }
    }
    value = s.sum;
    lost = s.lost;
  }

  // Whether a sum must be made again with care.
  DEVICE bool failed() const { return (op == kSum || op == kAvg) && !is_finite(value); }

  DEVICE double result() const {
    if (op == kSum) return value + lost;
    if (op != kAvg) return as_double(as_bits(value) ^ turn_of(op));
    double rest = lost;
    if (rest != 0) rest /= n;  // dividing zero takes a GPU long
    return value / n + rest;
  }
};
