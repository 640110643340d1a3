// group_rank: offers the values of a batch of series to the heaps of topk, or of bottomk, of
// their groups.
//
// Computes: the heap of group g at step k after Prometheus's engine offered it the values of
//   the group's series, in their order; elements move as in Go's container/heap, so ties and
//   NaN end up where they do there. Batches must come in their order.
// Grid: x 32 steps, a block of 32 threads by up to 8; y the groups that have a part in the batch, in
//   strides of the grid.
// A thread of the first warp owns one group at one step. Of group g at step k there are filled[g*steps+k]
//   elements; element i is keys[at] and places[at], at = (slots[g]+i)*steps+k. There are at
//   most slots[g+1]-slots[g]. Keys are values, with their sign changed for bottomk; the worst
//   is on top. Places are rows, counted from the first of batch 0; this batch's is `base`.
// Bytes per series and step: reads 8. Reads and writes 12 an element.
// Operations per series and step: 3, where the value is no better than the worst.
#include "../values/rows.h"

// A heap of a thread.
struct Heap {
  double* keys;
  u32* places;
  u64 stride;
  u32 n;
  DEVICE static bool before(double a, double b) { return a < b || a != a; }
  DEVICE void put(u32 i, double key, u32 place) {
    keys[i * stride] = key;
    places[i * stride] = place;
  }
  // Puts element j where i is.
  DEVICE void move(u32 i, u32 j) { put(i, keys[j * stride], places[j * stride]); }
  // Adds an element.
  DEVICE void push(double key, u32 place) {
    u32 i = n++;
    while (i > 0) {
      u32 parent = (i - 1) / 2;
      if (!before(key, keys[parent * stride])) break;
      move(i, parent);
      i = parent;
    }
    put(i, key, place);
  }
  // Puts an element in the first one's place.
  DEVICE void replace(double key, u32 place) {
    u32 i = 0;
    for (;;) {
      u32 child = 2 * i + 1;
      if (child >= n) break;
      double least = keys[child * stride];
      if (child + 1 < n) {
        double other = keys[(child + 1) * stride];
        if (before(other, least)) {
          child++;
          least = other;
        }
      }
      if (!before(least, key)) break;
      move(i, child);
      i = child;
    }
    put(i, key, place);
  }
};

// Offers values to a heap with room for so many.
struct Ranker {
  Heap heap;
  u32 room;
  u64 sign;    // what keys differ from values in
  double top;  // of a heap that is full
  DEVICE void offer(u32 place, double v) {
    if (as_bits(v) == kAbsent) return;
    double key = as_double(as_bits(v) ^ sign);
    if (heap.n < room) {
      heap.push(key, place);
    } else if (top < key || (top != top && key == key)) {
      heap.replace(key, place);
    } else {
      return;
    }
    top = heap.keys[0];
  }
};

KERNEL MAX_THREADS(256) group_rank(const double* __restrict__ values, u32 steps, const u32* __restrict__ groups,
                                  const u32* __restrict__ starts, const u32* __restrict__ rows, u32 count, Flag bottom,
                                  u32 base, const u32* __restrict__ slots, double* __restrict__ keys,
                                  u32* __restrict__ places, u32* __restrict__ filled) {
  SHARED double loaded[kMostWarps * kAtOnce][32];
  u32 k = block_x() * 32 + thread_x();
  bool mine = k < steps && thread_y() == 0;
  if (k >= steps) k = 0;
  Column c{values + k, rows, steps};
  for (u32 i = block_y(); i < count; i += blocks_y()) {
    u32 g = groups[i], slot = slots[g];
    u64 first = (u64)slot * steps + k;
    u32* full = filled + (u64)g * steps + k;
    Ranker r{{keys + first, places + first, steps, mine ? *full : 0}, mine ? slots[g + 1] - slot : 0, (u64)bottom << 63, __builtin_inf()};
    if (r.heap.n > 0) r.top = r.heap.keys[0];
    // Most values are no better than the worst of a heap that is full: whether one is, is
    // found out without waiting for any.
    u32 to = starts[i + 1];
    each_of(c, starts[i], to, loaded, [&](u32 from, const double* v) {
      bool better = r.heap.n < r.room || r.top != r.top;
      UNROLL for (u32 j = 0; j < kAtOnce; j++) better |= r.top < as_double(as_bits(v[j]) ^ r.sign);
      if (!better) return;
      NO_UNROLL for (u32 j = from; j < to && j < from + kAtOnce; j++) r.offer(base + rows[j], c.value(j));
    });
    if (mine) *full = r.heap.n;
  }
}
