// Steps whose samples are in one regular part of a chunk, as far apart as some of its samples: where the next one's
// sample is follows without a look at times, and several are loaded at once.
#pragma once
#include "walker.h"

const u32 kStepsAtOnce = 4;  // steps whose samples are loaded at once

DEVICE u32 least(u32 a, u32 b) { return a < b ? a : b; }

// The samples that steps from a time on have last, at or before them.
struct Stretch {
  u32 steps;  // in a row, each with another sample behind it in that part
  u32 i;      // the first one's sample
  u32 ahead;  // samples from one to the next
  u32 age;    // ms from the sample to its step
};

// The interval of steps as stretch_of takes it. Steps that are all at one time, or further apart than it holds,
// are none of a stretch: of the largest interval a chunk has no two.
DEVICE u32 interval_of(i64 interval) { return interval > 0 && interval >> 32 == 0 ? (u32)interval : ~0u; }

// Those of steps from t on, of samples before `limit`.
DEVICE Stretch stretch_of(const Walker& w, i64 t, u32 interval, u32 limit = ~0u) {
  Stretch s{0, 0, 0, 0};
  if (w.every == 0 || t < w.begin || w.until <= t) return s;
  s.ahead = interval / w.every;
  if (s.ahead * w.every != interval) return s;
  Part p = part_of(w, t);
  u32 since = (u32)(t - p.begin), to = least(p.to, limit), passed = since / w.every;
  s.i = p.from + passed;
  s.age = since - passed * w.every;
  if (s.i + 1 < to) s.steps = (to - 2 - s.i) / s.ahead + 1;
  return s;
}

// Loads the values of samples of a stretch, in words: a value of 2 bytes shares one with its neighbour.
struct Strider {
  const u8* at;  // the next sample's word
  u32 stride;    // bytes to the next
  u32 shift, mask;
  bool whole;
  double origin, unit, inverse;

  struct Words {
    u32 lower, upper;
  };

  // Loads the next sample, if there is one. 2^52 and an integer below it are one float64: no conversion is
  // needed.
  DEVICE Words next(bool there) {
    Words w{load_if(there, at, 0), load_if(there && whole, at + 4, kTwo52)};
    at += stride;
    return w;
  }
  static const u32 kTwo52 = 0x43300000;

  DEVICE double value(Words w) const {
    double v = as_double((u64)w.upper << 32 | (w.lower >> shift & mask));
    return whole ? v : of_decimal(v + origin, unit, inverse);
  }
};

DEVICE Strider strider(const Walker& w, u32 i, u32 ahead) {
  u32 bytes = value_bytes(w.kind);
  const u8* at = w.values + (u64)i * 32 * bytes;
  u32 inside = (u32)(u64)at & 2;
  return Strider{at - inside, ahead * 32 * bytes, 8 * inside, bytes == 2 ? 0xffff : ~0u, bytes == 8,
                 w.base - as_double((u64)Strider::kTwo52 << 32), w.chunk->unit, w.chunk->inverse};
}

// Goes to sample i of the chunk.
DEVICE void move_to(Walker& w, u32 i) {
  w.i = i;
  w.t = time(w, i);
}
