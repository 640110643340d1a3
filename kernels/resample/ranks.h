// Keys of some ranks, digit by digit. The threads of a block count how many keys have each value of
// a digit; a warp for each rank finds the digit of its key. Once at most kFew keys have the same
// digits, the warp compares them with each other. There are nine visits of the keys at most.
#pragma once
#include "group_runs.h"

const u32 kSought = 4;    // ranks at a time
const u32 kDigits = 256;  // values of a digit
const u32 kFew = 32;      // keys that a warp compares

// A rank among the keys from `from` to from + 2^bits - 1. Once its key is found, that is `from`, and
// bits is 0.
struct Sought {
  u64 from;
  u32 bits, rank;
  u32 left;  // keys in that range, or more

  DEVICE bool open() const { return bits > 0 && left > kFew; }
  DEVICE u32 shift() const { return bits > 8 ? bits - 8 : 0; }
};

// The bits of the largest difference from lo of the keys up to hi.
DEVICE u32 bits_between(u64 lo, u64 hi) { return lo < hi ? 64 - __builtin_clzll(hi - lo) : 0; }

// Finds the next digit of a rank's key by the number of keys with each. A lane owns eight digits; lane
// 31 has the first eight, as shuffles go down.
DEVICE void find_digit(Sought* sought, const u32* counts) {
  Sought x = *sought;
  u32 lane = thread_x() % 32, first = (31 - lane) * (kDigits / 32), sum = 0;
  for (u32 i = 0; i < kDigits / 32; i++) sum += counts[first + i];
  u32 upto = sum;
  for (u32 step = 1; step < 32; step *= 2) {
    u32 before = shuffle_down(upto, step);
    if (lane + step < 32) upto += before;
  }
  warp_barrier();  // all have read it
  if (x.rank >= upto || x.rank < upto - sum) return;
  u32 rank = x.rank - (upto - sum);
  for (; rank >= counts[first]; first++) rank -= counts[first];
  *sought = Sought{x.from + ((u64)first << x.shift()), x.shift(), rank, counts[first]};
}

// Finds the key of one rank among n, at most kFew.
DEVICE void find_among(Sought* sought, const u64* keys, u32 n) {
  u32 lane = thread_x() % 32, rank = sought->rank, less = 0;
  u64 key = keys[lane < n ? lane : 0];
  for (u32 i = 0; i < n; i++) less += keys[i] < key || (keys[i] == key && i < lane);
  warp_barrier();  // all have read the rank
  if (lane < n && less == rank) *sought = Sought{key, 0, 0, 1};
}

// Finds the keys of `some` ranks, at most kSought. visit hands each key to its sink, with the number
// of each rank that it counts for; kNoKey stands for none. room has 1 KiB a rank.
template <class Visit>
DEVICE void find_ranks(Sought* sought, u32 some, u32* room, Visit&& visit) {
  u32 me = thread_x(), warp = me / 32, warps = threads_x() / 32;
  u64 from[kSought];
  u32 bits[kSought];
  for (;;) {
    barrier();  // sought is there, and all have read counts
    bool open = false;
    for (u32 s = 0; s < some; s++) open = open || sought[s].open();
    for (u32 i = me; i < some * kDigits; i += threads_x()) room[i] = 0;
    UNROLL for (u32 s = 0; s < kSought; s++) {
      bool looked_for = s < some && (open ? sought[s].open() : sought[s].bits > 0);
      from[s] = looked_for ? sought[s].from : kNoKey;  // from which all keys are far
      bits[s] = !looked_for ? 1 : open ? sought[s].shift() : sought[s].bits;
    }
    barrier();
    if (!open) break;
    visit([&](u32 s, u64 key) {
      u64 digit = (key - from[s]) >> bits[s];
      if (digit < kDigits) atomic_add(&room[s * kDigits + (u32)digit], 1u);
    });
    barrier();
    for (u32 s = warp; s < some; s += warps) {
      if (sought[s].open()) find_digit(sought + s, room + s * kDigits);
    }
  }
  // The first word of a rank's room says how many keys are behind it.
  visit([&](u32 s, u64 key) {
    if ((key - from[s]) >> 1 >> (bits[s] - 1) > 0) return;
    u32 at = atomic_next(&room[s * kDigits], 1);
    if (at < kFew) ((u64*)(room + s * kDigits))[1 + at] = key;
  });
  barrier();
  for (u32 s = warp; s < some; s += warps) {
    u32* mine = room + s * kDigits;
    if (sought[s].bits > 0) find_among(sought + s, (u64*)mine + 1, *mine);
  }
  barrier();
}
