// Windows of policies that take samples in their order, several rows at once.
#pragma once
#include "plain.h"
#include "policy.h"
#include "rows.h"

// Reads the rows of a chunk, whatever their kind, from one on.
struct Reader {
  const u8* at;
  u32 kind;
  Scale scale;
  DEVICE Reader(const Walker& w, u32 from)
      : at(w.values + (u64)from * 32 * value_bytes(w.kind)), kind(w.kind & kValuesOf), scale(w) {}
  // The next n values. It says whether they are plain, if that matters: numbers of packed chunks are.
  template <bool any, u32 n>
  DEVICE bool read(double (&v)[n]) {
    bool plain = true;
    if (kind == kWhole) {
      load<double>(v);
      UNROLL for (u32 i = 0; i < n; i++) plain = plain && (any || is_plain(v[i]));
      return plain;
    }
    u32 u[n];
    if (kind == kHalf) {
      load<u32>(u);
    } else {
      load<unsigned short>(u);
    }
    UNROLL for (u32 i = 0; i < n; i++) v[i] = scale(u[i]);
    return plain;
  }
  template <class T, class V, u32 n>
  DEVICE void load(V (&v)[n]) {
    UNROLL for (u32 i = 0; i < n; i++) v[i] = ((const T*)at)[i * 32];
    at += n * 32 * sizeof(T);
  }
};

// The times of n samples from i on.
template <u32 n>
DEVICE void times_of(const Walker& w, u32 i, i64 (&t)[n]) {
  u32 kind = w.kind & kTimesOf;
  if (kind == kRegular) {
    i64 first = time(w, i);
    UNROLL for (u32 k = 0; k < n; k++) t[k] = first + k * w.every;
  } else if (kind == kAfterFirst) {
    UNROLL for (u32 k = 0; k < n; k++) t[k] = w.begin + ((const u32*)w.times)[(i + k) * 32];
  } else {
    UNROLL for (u32 k = 0; k < n; k++) t[k] = ((const i64*)w.times)[(i + k) * 32];
  }
}

// A policy for any values, as InTurn takes it.
template <class F>
struct OfAny : F {
  static const bool kAny = true, kRegular = false;  // it takes any values, regular times alone
  typedef i64 Time;                                 // what add is given as the time of a sample
  // From row i of a chunk on there are samples; n came before. It says whether it takes them.
  DEVICE bool follows(const Walker&, u32, u32) { return true; }
  // The times of the next rows, i and those behind.
  template <u32 n>
  DEVICE void read(const Walker& w, u32 i, Time (&t)[n]) {
    times_of(w, i, t);
  }
  DEVICE bool failed() const { return false; }
};

// A policy that takes the samples of a window.
template <class P>
struct InTurn {
  P p{};
  u32 n = 0;          // samples
  bool taken = true;  // all of them
  DEVICE void rows(const Walker& w, u32 from, u32 count) {
    taken = taken && p.follows(w, from, n);
    Reader r(w, from);
    NO_UNROLL for (; count >= kRowsAtOnce && taken; count -= kRowsAtOnce, from += kRowsAtOnce) take<kRowsAtOnce>(w, r, from);
    NO_UNROLL for (; count > 0 && taken; count--, from++) take<1>(w, r, from);
    n += count;
  }
  template <u32 many>
  DEVICE void take(const Walker& w, Reader& r, u32 from) {
    double v[many];
    typename P::Time t[many];
    taken = r.read<P::kAny>(v);
    p.read(w, from, t);
    UNROLL for (u32 i = 0; i < many; i++) p.add(n++, t[i], v[i]);
  }
};
