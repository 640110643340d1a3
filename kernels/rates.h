// rate, increase and delta of windows that share no sample: see fused.h.
#pragma once
#include "fused.h"
#include "rate.h"

// Prometheus adds what a counter had before each reset to the difference between the
// window's last and first value, in their order. The difference is known last, so two
// resets are kept for it. Where a window has more, the thread goes through all of its
// chunk twice more: for the differences, which wait where the results go, and to add to
// them.
struct Rates {
  u32 counter;
  double seconds;

  double first, last, increase;
  double before[2];  // the first resets
  i64 first_time, last_time;
  u32 resets;
  u32 most;  // resets of a window
  u32 pass;

  DEVICE Rates(u32 counter, double seconds)
      : counter(counter), seconds(seconds), first(0), last(0), increase(0), before{0, 0}, first_time(0), last_time(0),
        resets(0), most(0), pass(0) {}

  DEVICE void begin(const u64* out) {
    resets = 0;
    if (pass == 2) increase = as_double(*out);
  }
  DEVICE void add(u32 n, i64 t, double v) {
    if (n == 0) {
      first = v;
      first_time = t;
    } else if (counter && v < last) {
      if (pass == 2) {
        increase += last;
      } else if (resets < 2) {
        before[resets] = last;
      }
      resets++;
    }
    last = v;
    last_time = t;
  }
  DEVICE Found found(u32 n, i64 begin, i64 end) {
    if (n < 2) return Found{kAbsent, n, n};
    if (resets > most) most = resets;
    if (pass < 2) increase = last - first;
    if (pass == 1) return Found{as_bits(increase), n, n};
    if (pass == 0) {
      if (resets > 0) increase += before[0];
      if (resets > 1) increase += before[1];
    }
    Shape shape{0, 0, 0, seconds, 0, 0, 0, 0};
    set_shape(shape, n, first_time - begin, end - last_time, last_time - first_time);
    return Found{as_bits(extrapolated(shape, counter, first, increase)), n, n};
  }
  DEVICE bool more() { return most > 2 && ++pass < 3; }
};
