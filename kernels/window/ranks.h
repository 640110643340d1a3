// Ranks among the values of a window where they are stored integers of one unit: the ones wanted are
// found among the last, or the first, of up to 16, which stay in registers.
#pragma once
#include "../values/order.h"
#include "job.h"
#include "rows.h"

// The M largest of some keys, the largest first. The first of them are made up, so that the last is the
// one wanted. A key that is added moves smaller ones on by one place.
template <u32 M>
struct Foremost {
  u32 keys[M];
  u32 sign, offset;  // u is added as u*sign + offset
  u32 all;           // bits of all u
  DEVICE explicit Foremost(u32 wanted) : sign(0), offset(0), all(0) {
    UNROLL for (u32 i = 0; i < M; i++) keys[i] = i + wanted < M ? ~0u : 0;
  }
  DEVICE void add(u32 u) {
    all |= u;
    u32 key = u * sign + offset;
    UNROLL for (u32 i = 0; i < M; i++) {
      u32 smaller = key < keys[i] ? key : keys[i];
      keys[i] = key < keys[i] ? keys[i] : key;
      key = smaller;
    }
  }
};

// A window: from where lo is, to before where hi is, n samples, `first` of them in lo's chunk and the
// others at the beginning of hi's.
struct Rows {
  const Walker& lo;
  const Walker& hi;
  u32 first, n;

  // Whether the values of both chunks are integers of one unit.
  DEVICE bool alike() const {
    if ((lo.kind & kValuesOf) == kWhole) return false;
    return first == n || ((hi.kind & kValuesOf) != kWhole && Scale(lo).unit == Scale(hi).unit);
  }
};

// The value of which `wanted` values, itself one, come not before it, or if `up`, not behind it; and
// that of one less. False where the chunks' integers are too far apart.
template <u32 M>
DEVICE bool ranked(const Rows& of, u32 wanted, bool up, double& value, double& next) {
  const u32 kFar = 1u << 30;
  u32 offset = of.first < of.n ? kFar : 0, from = of.lo.i, n = of.first;
  Foremost<M> found(wanted);
  found.sign = up ? ~0u : 1;
  NO_UNROLL for (u32 run = 0; run < 2 && n > 0; run++) {
    const Walker& w = run ? of.hi : of.lo;
    u32 to = offset;
    if (run) {
      double apart = of.hi.base - of.lo.base;
      if (!(__builtin_fabs(apart) < (double)kFar)) return false;
      to += (u32)(i32)apart;
    }
    found.offset = up ? ~to : to;  // ~(u + to) is ~to - u
    add_integers(w, from, n, found);
    from = 0;
    n = of.n - of.first;
  }
  if (offset && found.all >= kFar) return false;
  Scale scale(of.lo);
  u32 flip = up ? ~0u : 0;
  value = scale.at((i64)(found.keys[M - 1] ^ flip) - offset);
  next = scale.at((i64)(found.keys[M - 2] ^ flip) - offset);
  return true;
}

// Notes quantiles of the windows from k to `end` of a thread, until one of them is not to be had so, and
// returns its number. lo and hi are at the first sample and behind the last of the window before, `passed`
// samples; lo is left at the first one of the next.
template <class Results>
DEVICE u32 by_ranks(const WindowJob& job, double quantile, u32 k, u32 end, Walker& lo, Walker& hi, u32& passed, Results& to) {
  bool up = quantile < 0.5;
  for (; k < end; k++) {
    i64 closes = job.end(k);
    passed -= advance(lo, job.c, closes - job.width);
    passed += advance(hi, job.c, closes);
    if (passed == 0) {
      note(to, kAbsent, 0);
      continue;
    }
    Rows rows{lo, hi, lo.tile == hi.tile ? passed : lo.n - lo.i, passed};
    if (rows.first < passed && rows.first + hi.i != passed) return k;  // a chunk between
    if (!rows.alike()) return k;
    Position p = position_of(quantile, passed);
    u32 wanted = up ? p.upper + 1 : passed - p.lower;
    double value, next;
    if (!(wanted <= 4 ? ranked<4>(rows, wanted, up, value, next) :
          wanted <= 16 ? ranked<16>(rows, wanted, up, value, next) : false)) return k;
    if (p.lower == p.upper) next = value;
    note(to, as_bits(up ? between(next, value, p.weight) : between(value, next, p.weight)), passed);
  }
  return end;
}
