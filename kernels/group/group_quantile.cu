// group_quantile: the quantile of the values of each group's series, at every step.
//
// Computes: out[g*steps+k] = v(r)*(1-w) + v(r+1)*w of the n values v(0) <= v(1) ... of group g
//   at step k, NaN first, where r + w = quantile*(n-1). Where the answer depends on how zeros
//   of either sign are sorted it lowers *fault to kMixedZeros.
// Grid: x 32 steps, a block of 32 by `parts` threads; y groups, in strides of the grid.
// A thread owns a part of one group at one step: the threads of a column share its series. Those of group g
//   have rows members[first[g]] to members[first[g+1]], and row r has
//   values[r*steps+k]. They narrow the range that the value of the wanted rank
//   lies in by 4 bits at a time, counting the values in each sixteenth; where few are left,
//   or the same, the range shrinks to that of those. So values are looked at some 5 to 10
//   times, and 20 times at most.
// Bytes per series and step: reads 8 each time. Writes 8 a group and step.
// Operations per series and step: about 15 each time.
#include "../abi/series.h"
#include "../values/order.h"

const u32 kLanes = 32;
const u32 kSixteen = 16;
const u32 kLittle = 64;        // values that are few
const u64 kZero = 1ull << 63;  // the key of zeros

// The series of a group, of which a thread looks at every part-th run of 32.
struct Members {
  const double* __restrict__ values;
  const u32* __restrict__ at;
  u32 from, to, steps, k, parts;

  template <class Sink>
  DEVICE void each(Sink sink) const {
    const u32 kAhead = 8;
    for (u32 i = from + thread_y() * kLanes; i < to; i += parts * kLanes) {
      u32 end = to - i < kLanes ? to : i + kLanes;
      for (u32 j = i; j < end; j += kAhead) {
        double v[kAhead];
        UNROLL for (u32 n = 0; n < kAhead; n++) {
          v[n] = j + n < end ? values[(u64)at[j + n] * steps + k] : as_double(kAbsent);
        }
        UNROLL for (u32 n = 0; n < kAhead; n++) {
          if (as_bits(v[n]) != kAbsent) sink(v[n]);
        }
      }
    }
  }
};

// What the threads of the columns share.
struct Columned {
  u32 bins[kSixteen][kLanes];
  u64 least[kLanes], most[kLanes];  // keys; the latter inverted
  u32 n[kLanes], minus[kLanes], plus[kLanes];
  u32 busy;
};

// The keys of a range.
struct Keys {
  u64 lo, hi;
  DEVICE bool has(u64 key) const { return lo <= key && key <= hi; }
};

// Makes `range` that of the values in it, for the columns that want that.
DEVICE void shrink(Columned& all, const Members& m, Keys& range, bool wanted) {
  u32 x = thread_x();
  barrier();
  if (thread_y() == 0) all.least[x] = all.most[x] = ~0ull;
  barrier();
  if (wanted) {
    Keys mine{~0ull, ~0ull};
    m.each([&](double v) {
      u64 key = key_of(v);
      if (!range.has(key)) return;
      if (key < mine.lo) mine.lo = key;
      if (~key < mine.hi) mine.hi = ~key;
    });
    atomic_min(&all.least[x], mine.lo);
    atomic_min(&all.most[x], mine.hi);
  }
  barrier();
  if (wanted) range = Keys{all.least[x], ~all.most[x]};
}

// Whether any thread of the block has something to do.
DEVICE bool any(Columned& all, bool mine) {
  barrier();
  if (thread_x() == 0 && thread_y() == 0) all.busy = 0;
  barrier();
  if (mine) atomic_max(&all.busy, 1u);
  barrier();
  return all.busy != 0;
}

// Narrows `range`, that of all n values, to the key of the value with that rank.
// `rank` becomes that among its equals, of which there are n.
DEVICE void narrow(Columned& all, const Members& m, Keys& range, u32& rank, u32& n) {
  u32 x = thread_x();
  for (u32 round = 0; any(all, range.lo < range.hi); round++) {
    bool open = range.lo < range.hi;
    for (u32 b = thread_y(); b < kSixteen; b += m.parts) all.bins[b][x] = 0;
    barrier();
    u32 shift = 0;
    if (open) {
      u32 size = 64 - (u32)__builtin_clzll(range.lo ^ range.hi);
      shift = size > 4 ? size - 4 : 0;
      m.each([&](double v) {
        u64 key = key_of(v);
        if (range.has(key)) atomic_add(&all.bins[key >> shift & (kSixteen - 1)][x], 1u);
      });
    }
    barrier();
    if (open) {
      u32 b = 0;
      while (rank >= all.bins[b][x]) rank -= all.bins[b++][x];
      n = all.bins[b][x];
      u64 base = (range.lo >> shift & ~(u64)(kSixteen - 1)) | b, rest = (1ull << shift) - 1;
      u64 lo = base << shift, hi = lo | rest;
      range = Keys{lo > range.lo ? lo : range.lo, hi < range.hi ? hi : range.hi};
    }
    shrink(all, m, range, open && range.lo < range.hi && (n <= kLittle || round % 3 == 2));
  }
}

KERNEL MAX_THREADS(1024) group_quantile(const double* __restrict__ values, u32 steps, const u32* __restrict__ members,
                                        const u32* __restrict__ first, u32 count, u32 parts, double quantile,
                                        u64* __restrict__ out, u64* __restrict__ fault) {
  SHARED Columned all;
  u32 x = thread_x(), k = block_x() * kLanes + x;
  bool mine = k < steps;
  for (u32 g = block_y(); g < count; g += blocks_y()) {
    Members m{values, members, first[g], mine ? first[g + 1] : first[g], steps, k, parts};
    barrier();
    if (thread_y() == 0) all.n[x] = all.minus[x] = all.plus[x] = 0;
    barrier();
    u32 n = 0, minus = 0, plus = 0;
    m.each([&](double v) {
      n++;
      if (v == 0) (as_bits(v) >> 63 ? minus : plus)++;
    });
    if (n) atomic_add(&all.n[x], n);
    if (minus) atomic_add(&all.minus[x], minus);
    if (plus) atomic_add(&all.plus[x], plus);
    barrier();
    n = all.n[x], minus = all.minus[x], plus = all.plus[x];
    Keys range{0, ~0ull};
    shrink(all, m, range, n > 0);
    if (n == 0) range = Keys{0, 0};
    Position p = position_of(quantile, n ? n : 1);
    u32 rank = p.lower, equal = n;
    narrow(all, m, range, rank, equal);
    // The next value is another one only behind the last of the equals.
    Keys above{range.lo + 1, ~0ull};
    bool another = n > 0 && p.upper > p.lower && rank + 1 == equal;
    shrink(all, m, above, another);
    if (!mine || thread_y() > 0) continue;
    u64 result = kAbsent;
    if (n > 0) {
      u64 upper = another ? above.lo : range.lo;
      bool zero = range.lo == kZero || upper == kZero;
      if (zero && minus && plus) atomic_min(fault, kMixedZeros);
      double of_zero = minus ? -0.0 : 0.0;
      double low = range.lo == kZero ? of_zero : of_key(range.lo), high = upper == kZero ? of_zero : of_key(upper);
      result = as_bits(between(low, high, p.weight));
    }
    out[(u64)g * steps + k] = result;
  }
}
