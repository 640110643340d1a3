// The standard deviation and the variance, by Welford's recurrence.
#pragma once
#include "../values/aggregate.h"
#include "policy.h"

template <bool root>
struct Welford {
  double count = 0, mean = 0, mean_lost = 0, squares = 0, squares_lost = 0;
  DEVICE void begin(const Beginning&) {}
  DEVICE void add(u32, i64, double v) {
    count++;
    double delta = v - (mean + mean_lost);
    double part = delta;
    if (part != 0) part /= count;  // dividing zero takes a GPU long
    add_compensated(part, mean, mean_lost);
    add_compensated(delta * (v - (mean + mean_lost)), squares, squares_lost);
  }
  DEVICE Found found(u32 n, i64, i64) const {
    double v = (squares + squares_lost) / count;
    return value_of_all(root ? __builtin_sqrt(v) : v, n);
  }
};

using Variance = Welford<false>;
using Deviation = Welford<true>;
