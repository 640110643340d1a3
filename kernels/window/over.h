// sum, avg, min and max over time as policies.
#pragma once
#include "../values/aggregate.h"
#include "policy.h"

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
