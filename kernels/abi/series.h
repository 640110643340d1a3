// Series as kernels hand them to each other and to the host: mirrored by series.go.
#pragma once
#include "compiler.h"

const i64 kNever = 0x7fffffffffffffffll;

// What decode_series says of a chunk. Mirrors abi.Decoded.
struct Decoded {
  i64 end;      // the time of its last sample, stale or not; if it has none, what the table states
  u32 samples;  // in its column
  u32 falls;    // the one that is less than the one before it, kFallsOften if several are; 0 if none is
};
const u32 kFallsOften = 0xffff;  // more samples than a chunk has

// Mirrors abi.SeriesCounts: what the sample limit needs of a series.
struct SeriesCounts {
  u32 points;  // steps with a value
  u32 most;    // samples in its largest window
  u32 last;    // samples in the window of the last step
};

// Where a window has no value. No window function has a stale marker for a value, since
// they read none. Mirrors abi.Absent.
const u64 kAbsent = 0x7ff0000000000002ull;

// The fault of an answer that depends on how zeros of either sign are sorted. Mirrors
// abi.MixedZeros.
const u64 kMixedZeros = ~0ull - 1;

// The fault of a run that is too long to be sorted. Mirrors abi.LongRun.
const u64 kLongRun = ~0ull - 2;

// The state of an aggregation over so many values. Mirrors abi.State.
struct State {
  double value;  // sum, or mean, or extreme, or sum of squared distances from the mean
  double lost;   // of it, by rounding; or that mean
  u32 n;         // values
  u32 running;   // the sum would have been infinite: value is a running mean
};
