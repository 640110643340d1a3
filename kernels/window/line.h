// The least-squares line: its slope, and its value `param` seconds after the step.
#pragma once
#include "extrapolate.h"
#include "policy.h"
#include "rows.h"

template <bool predicts>
struct Line {
  double ahead = 0;  // seconds after the step that it is predicted for
  double x = 0, y = 0, xy = 0, xx = 0, x_lost = 0, y_lost = 0, xy_lost = 0, xx_lost = 0, initial = 0;
  i64 origin = 0;
  bool constant = true;
  DEVICE void begin(const Beginning& at) {
    origin = at.step;
    ahead = at.param;
  }
  DEVICE void add(u32 i, i64 t, double v) {
    if (i == 0) {
      initial = v;
      if (!predicts) origin = t;
    } else if (v != initial) {
      constant = false;
    }
    double at = seconds_of(t - origin);
    add_compensated_finite(at, x, x_lost);
    add_compensated(v, y, y_lost);
    add_compensated(at * v, xy, xy_lost);
    add_compensated_finite(at * at, xx, xx_lost);
  }
  DEVICE Found found(u32 count, i64, i64) const {
    if (count < 2) return Found{kAbsent, count};
    double slope = 0, intercept = initial;
    if (constant) {
      if (infinite(initial)) return value_of_all(__builtin_nan(""), count);
    } else {
      double n = count, sx = x + x_lost, sy = y + y_lost, sxy = xy + xy_lost, sxx = xx + xx_lost;
      slope = (sxy - sx * sy / n) / (sxx - sx * sx / n);
      intercept = sy / n - slope * sx / n;
    }
    return value_of_all(predicts ? slope * ahead + intercept : slope, count);
  }
};

using Slope = Line<false>;
using Prediction = Line<true>;
