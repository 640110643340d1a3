// The rank of a value among those of a window where they lie, told from its rank in the window before.
#pragma once
#include "../values/order.h"
#include "rows.h"

// 12 warps a multiprocessor, as more would not leave the last window of each in the caches, and the rows that one loads
// before the first is waited for.
#define SELECT_THREADS MAX_THREADS_AND_BLOCKS(128, 3)
const u32 kRowsToSelect = 16;

// The stored integers of a chunk whose values are below a key are those below `from`; of that key, if there is one,
// is `from`; from `behind` on they are above.
struct Bounds {
  u64 from, behind;  // up to 2^32
};

DEVICE Bounds bounds_of(const Scale& scale, u64 key) {
  const double all = 4294967296.0;
  double v = of_key(key);
  if (v != v) {  // no number has such a key: it comes before all, or behind
    u64 at = key >> 63 << 32;
    return Bounds{at, at};
  }
  double d = v * scale.unit - scale.base;
  // The product is off by less than 1, as integers are below 2^52: so are the first and the last candidate.
  u64 from = d < 2 ? 0 : d < all ? (u64)d - 2 : (1ull << 32) - 1;
  while (from >> 32 == 0 && scale((u32)from) < v) from++;
  return Bounds{from, from + (from >> 32 == 0 && scale((u32)from) == v)};
}

const u32 kNear = 6;

// The kNear smallest of some numbers, the smallest first.
template <class T>
struct Smallest {
  T all[kNear];
  DEVICE Smallest() {
    UNROLL for (u32 i = 0; i < kNear; i++) all[i] = (T)~T{};
  }
  DEVICE void add(T d) {
    UNROLL for (u32 i = 0; i < kNear; i++) {
      T less = d < all[i] ? d : all[i];
      d = d < all[i] ? all[i] : d;
      all[i] = less;
    }
  }
};

// Numbers, turned if they are to be looked at from above, by how far behind another they are: what is before that
// is further than all behind it, by wrapping.
template <class T>
struct Distances {
  T turn, offset;
  Smallest<T> near;
  DEVICE Distances(bool up, T behind) : turn(up ? T{} : (T)~T{}), offset((T)(T{} - behind)) {}
  DEVICE void add(T u) { near.add((T)((u ^ turn) + offset)); }
};

struct KeyDistances : Distances<u64> {
  using Distances::Distances;
  DEVICE void add(double v) { Distances::add(key_of(v)); }
};

// The keys of a window that are nearest to one, above it or below.
struct Nearest {
  u64 key;
  bool up;
  KeyDistances found;
  DEVICE Nearest(u64 key, bool up) : key(key), up(up), found(up, (up ? key : ~key) + 1) {}

  // How far behind the first that there can be the i-th is: -1 before the first, which is the key itself.
  DEVICE u64 distance(u32 i) const {
    u64 d = ~0ull;
    UNROLL for (u32 j = 0; j < kNear; j++) {
      if (i == j) d = found.near.all[j];
    }
    return d;
  }
  DEVICE u64 at(u32 i) const { return up ? key + 1 + distance(i) : key - 1 - distance(i); }

  DEVICE void rows(const Walker& w, u32 from, u32 n) {
    if ((w.kind & kValuesOf) == kWhole) return add_values<kRowsToSelect>(w, from, n, found);
    Scale scale(w);
    Bounds b = bounds_of(scale, key);
    // Turned, the integers below the key are those from 2^32-from on.
    u64 behind = up ? b.behind : (1ull << 32) - b.from;
    if (behind >> 32) return;
    Distances<u32> integers(up, (u32)behind);
    add_integers<kRowsToSelect>(w, from, n, integers);
    NO_UNROLL for (u32 i = 0; i < kNear && i < n; i++) {
      u32 d = integers.near.all[0];
      UNROLL for (u32 j = 1; j < kNear; j++) integers.near.all[j - 1] = integers.near.all[j];
      if ((d + behind) >> 32) break;  // it is on the other side
      found.add(scale(((u32)behind + d) ^ integers.turn));
    }
  }
};

// How many values of a window have keys below one, and that key.
struct Standing {
  u64 key;
  u32 below = 0, equal = 0;
  u32 minus = 0;  // zeros below 0
  DEVICE explicit Standing(u64 key) : key(key) {}
  DEVICE void add(double v) {
    u64 k = key_of(v);
    below += k < key;
    equal += k == key;
    minus += as_bits(v) == 1ull << 63;
  }
  struct OfIntegers {
    u32 from, behind, below = 0, upto = 0;
    DEVICE void add(u32 u) {
      below += u < from;
      upto += u < behind;
    }
  };
  DEVICE void rows(const Walker& w, u32 at, u32 n) {
    if ((w.kind & kValuesOf) == kWhole) return add_values(w, at, n, *this);
    Scale scale(w);
    Bounds b = bounds_of(scale, key);
    if (b.from >> 32) {
      below += n;
      return;
    }
    OfIntegers of{(u32)b.from, (u32)b.behind};
    add_integers<kRowsToSelect>(w, at, n, of);
    below += of.below;
    equal += (b.behind >> 32 ? n : of.upto) - of.below;
  }
};

// Has s stand at the i-th of the keys nearest to its own, if all that are equal are among these.
DEVICE bool follow(const Nearest& near, u32 i, Standing& s) {
  const u64(&all)[kNear] = near.found.near.all;
  u64 d = near.distance(i);
  u32 nearer = 0, equal = 0;
  UNROLL for (u32 j = 0; j < kNear; j++) {
    nearer += all[j] < d;
    equal += all[j] == d;
  }
  if (i >= kNear || all[kNear - 1] == d) return false;
  s.below = near.up ? s.below + s.equal + nearer : s.below - nearer - equal;
  s.equal = equal;
  s.key = near.at(i);
  return true;
}
