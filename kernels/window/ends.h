// Functions of a window's first or last sample alone.
#pragma once
#include "../abi/functions.h"
#include "extrapolate.h"
#include "policy.h"

// The function of a window of n samples whose ends are e, which has oldest(), newest(), and
// the times of both.
template <class E>
DEVICE double value_of_ends(Ends kind, const E& e, u32 n) {
  switch (kind) {
    case kInstant:
    case kNewest: return e.newest();
    case kOldest: return e.oldest();
    case kInstantTime: return seconds_of(e.newest_time());
    case kNewestTime: return e.newest_time() < 0 ? 0 : seconds_of(e.newest_time());
    case kOldestTime: return seconds_of(e.oldest_time());
    case kNumber: return n;
    case kPresent:
    default: return 1;
  }
}

template <class E>
DEVICE Found found_at_ends(Ends kind, const E& e, u32 n) {
  bool instant = kind == kInstant || kind == kInstantTime;
  // A stale marker, which only an instant selector meets, is kAbsent.
  if (n == 0 || (instant && as_bits(e.newest()) == kAbsent)) return Found{kAbsent, 0};
  return Found{as_bits(value_of_ends(kind, e, n)), instant ? 0 : n};
}

// The ends of a window as a policy.
struct WindowEnds {
  Ends kind;
  double first, last;
  i64 first_time, last_time;

  DEVICE double oldest() const { return first; }
  DEVICE double newest() const { return last; }
  DEVICE i64 oldest_time() const { return first_time; }
  DEVICE i64 newest_time() const { return last_time; }

  DEVICE void begin(const Beginning&) {}
  DEVICE void add(u32 n, i64 t, double v) {
    if (n == 0) {
      first = v;
      first_time = t;
    }
    last = v;
    last_time = t;
  }
  DEVICE Found found(u32 n, i64, i64) const { return found_at_ends(kind, *this, n); }
  DEVICE bool failed() const { return false; }
};
