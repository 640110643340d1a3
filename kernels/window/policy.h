// Window functions as policies. A policy F has
//   F{}                   is one that has not begun
//   begin(at)             where a window begins
//   add(n, t, v)          takes sample number n of the window: its time in ms, its value
//   found(n, begin, end)  says what comes of the window (begin, end], ms, of n >= 1 samples
// Strategies are templates over a policy: rows.h computes windows from stored samples, each
// with an F of its own; fused.h while chunks are decoded, all with one F, which it asks failed().
// A policy of window_statistic may have another, Plain, which takes plain values faster (in_turn.h).
#pragma once
#include "../abi/functions.h"
#include "../abi/series.h"

struct Beginning {
  i64 step;             // the time of the step itself in ms; 0 in fused kernels
  double param, trend;  // the function's parameters
  const u64* out;       // where the value goes in fused kernels
  Statistic kind = 0;   // in window_statistic
};

// What comes of a window: the bits of a value, and the samples that count for the sample limit.
struct Found {
  u64 value;
  u32 held;
};

// A value of all n samples of a window.
DEVICE Found value_of_all(double v, u32 n) { return Found{as_bits(v), n}; }
