// group_rank: offers the values of a batch of series to the heaps of topk, or of bottomk, of
// their groups.
//
// Computes: the heap of group g at step k after Prometheus's engine offered it the values of
//   the group's series, in their order; elements move as in Go's container/heap, so ties and
//   NaN end up where they do there. Batches must come in their order.
// Grid: x 32 or 8 steps, y the groups that have a part in the batch, in strides of the grid. A block has a thread a step,
//   or 32.
// A step's threads own one group there. Each looks which of 8 series are better than the worst that is kept; the first
//   owns the heap, and offers it those. Of group g at step k there are filled[g*steps+k] elements; element i is keys[at]
//   and places[at], at = (slots[g]+i)*steps+k. There are at most slots[g+1]-slots[g]. Keys are values, with their sign
//   changed for bottomk; the worst is on top. Places are rows, counted from the first of batch 0; this batch's is `base`.
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
  u64 sign;  // what keys differ from values in

  // What a key must be above to be kept; NaN while any may be.
  DEVICE double least() const { return heap.n < room ? __builtin_nan("") : room > 0 ? heap.keys[0] : __builtin_inf(); }
  DEVICE void offer(u32 place, double v) {
    double key = as_double(as_bits(v) ^ sign);
    if (heap.n < room) {
      heap.push(key, place);
    } else if (heap.keys[0] < key || (heap.keys[0] != heap.keys[0] && key == key)) {
      heap.replace(key, place);
    }
  }
};

const u32 kMostSteps = 32, kMostRows = 32;  // of a block, and their product at most 256

// What the threads of a block share.
struct Round {
  double values[kAtOnce * 256];  // of the series of row 0 at all steps, and so on
  double least[kMostSteps];
  // Bit n of a step: the n-th series of the round is offered.
  union {
    u8 rows[kMostRows];
    u64 words[kMostRows / 8];
  } better[kMostSteps];
};

KERNEL MAX_THREADS(256) group_rank(const double* __restrict__ values, u32 steps, const u32* __restrict__ groups,
                                  const u32* __restrict__ starts, const u32* __restrict__ rows, u32 count, Flag bottom,
                                  u32 base, const u32* __restrict__ slots, double* __restrict__ keys,
                                  u32* __restrict__ places, u32* __restrict__ filled) {
  SHARED Round round;
  u32 x = thread_x(), y = thread_y(), width = threads_x(), all = threads_y() * kAtOnce;
  u32 k = block_x() * width + x;
  bool mine = k < steps && y == 0;
  if (k >= steps) k = 0;
  Column c{values + k, rows, steps};
  for (u32 w = 0; y == 0 && w < kMostRows / 8; w++) round.better[x].words[w] = 0;
  for (u32 i = block_y(); i < count; i += blocks_y()) {
    u32 g = groups[i], slot = slots[g];
    u64 first = (u64)slot * steps + k;
    u32* full = filled + (u64)g * steps + k;
    Ranker r{{keys + first, places + first, steps, mine ? *full : 0}, mine ? slots[g + 1] - slot : 0, (u64)bottom << 63};
    if (y == 0) round.least[x] = r.least();
    double next[kAtOnce];
    u32 to = starts[i + 1];
    auto load = [&](u32 from) {
      UNROLL for (u32 j = 0; j < kAtOnce; j++) next[j] = from + j < to ? c.value(from + j) : as_double(kAbsent);
    };
    load(starts[i] + y * kAtOnce);
    for (u32 from = starts[i]; from < to; from += all) {
      barrier();  // all that was offered is
      double least = round.least[x];
      u32 better = 0;
      UNROLL for (u32 j = 0; j < kAtOnce; j++) {
        bool above = least != least ? as_bits(next[j]) != kAbsent : least < as_double(as_bits(next[j]) ^ r.sign);
        better |= (u32)above << j;
        round.values[(y * kAtOnce + j) * width + x] = next[j];
      }
      round.better[x].rows[y] = (u8)better;
      barrier();
      load(from + all + y * kAtOnce);
      if (!mine) continue;
      bool some = false;
      for (u32 w = 0; w * 64 < all; w++) {
        for (u64 left = round.better[x].words[w]; left > 0; left &= left - 1) {
          u32 n = w * 64 + (u32)__builtin_ctzll(left);
          r.offer(base + rows[from + n], round.values[n * width + x]);
          some = true;
        }
      }
      if (some) round.least[x] = r.least();
    }
    if (mine) *full = r.heap.n;
  }
}
