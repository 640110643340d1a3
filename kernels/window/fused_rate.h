// rate, increase and delta as policies of fused kernels.
#pragma once
#include "extrapolate.h"
#include "fused.h"

// The windows of a counter, or of a gauge. Prometheus adds what a counter had before each
// reset to the difference between the window's last and first value, in their order. The
// difference is known last, so two resets are held for it; it fails where there are more.
struct Rates {
  Flag counter;
  double seconds;

  double first = 0, last = 0;
  i64 first_time = 0, last_time = 0;
  double before = 0, between = 0;  // the first two resets
  u32 resets = 0;
  bool many = false;

  DEVICE void begin(const Beginning&) { resets = 0; }
  DEVICE void add(u32 n, i64 t, double v) {
    if (n == 0) {
      first = v;
      first_time = t;
    } else if (counter && v < last) {
      if (resets == 0) {
        before = last;
      } else {
        between = last;
      }
      resets++;
    }
    last = v;
    last_time = t;
  }
  DEVICE Found found(u32 n, i64 begin, i64 end) {
    if (n < 2) return Found{kAbsent, n};
    many = many || resets > 2;
    double increase = last - first;
    if (resets > 0) increase += before;
    if (resets > 1) increase += between;
    return rate(n, begin, end, increase);
  }
  DEVICE Found rate(u32 n, i64 begin, i64 end, double increase) const {
    Shape shape{0, 0, 0, seconds, 0, 0, 0, 0};
    set_shape(shape, n, first_time - begin, end - last_time, last_time - first_time);
    return value_of_all(extrapolated(shape, counter, first, increase), n);
  }
  DEVICE bool failed() const { return many; }
};

// Any number of resets, in two passes: the first leaves the differences where the results
// go, the second adds to them.
struct ManyResets {
  Rates r;
  bool adds;
  double increase;

  DEVICE void begin(const Beginning& at) {
    if (adds) increase = as_double(*at.out);
  }
  DEVICE void add(u32 n, i64 t, double v) {
    if (n > 0 && v < r.last) increase += r.last;
    r.add(n, t, v);
  }
  DEVICE Found found(u32 n, i64 begin, i64 end) const {
    if (n < 2) return Found{kAbsent, n};
    if (adds) return r.rate(n, begin, end, increase);
    return value_of_all(r.last - r.first, n);
  }
  DEVICE bool failed() const { return !adds; }
};
