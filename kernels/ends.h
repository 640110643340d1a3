// What depends on a window's first or last sample alone: see window_ends.
#pragma once
#include "fused.h"
#include "rate.h"

// The kinds; the numbers are those of kernels.Ends.
const u32 kInstant = 0;     // the last sample
const u32 kNewest = 1;      // the last sample of a range
const u32 kOldest = 2;      // the first one
const u32 kNewestTime = 3;  // the time of the last, in seconds
const u32 kOldestTime = 4;
const u32 kNumber = 5;  // how many samples
const u32 kInstantTime = 7;  // the time of the last sample, in seconds

// The ends of windows that share no sample: see fused.h.
struct WindowEnds {
  u32 kind;
  double oldest, newest;
  i64 oldest_time, newest_time;

  DEVICE void begin(const u64*) {}
  DEVICE void add(u32 n, i64 t, double v) {
    if (n == 0) {
      oldest = v;
      oldest_time = t;
    }
    newest = v;
    newest_time = t;
  }
  DEVICE double value(u32 n) const {
    switch (kind) {
      case kInstant:
      case kNewest: return newest;
      case kOldest: return oldest;
      case kInstantTime:
      case kNewestTime: return seconds_of(newest_time);
      case kOldestTime: return seconds_of(oldest_time);
      case kNumber: return n;
      default: return 1;  // present
    }
  }
  DEVICE Found found(u32 n, i64, i64) const {
    bool instant = kind == kInstant || kind == kInstantTime;
    // A stale marker, which only an instant selector meets, is kAbsent.
    if (n == 0 || (instant && as_bits(newest) == kAbsent)) return Found{kAbsent, 0, 0};
    return Found{as_bits(value(n)), instant ? 1 : n, instant ? 0 : n};
  }
  DEVICE bool failed() const { return false; }
};
