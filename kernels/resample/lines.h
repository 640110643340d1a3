// States of runs as warps store them: those of a series at neighbouring buckets lie side by side, so that
// they wait in shared memory until a warp has some buckets of all of its 32 series.
//
//	field 0: series 0 bucket 0 │ 1 │ … width ║ series 1 … ║ field 1 … ║ samples, 4 bytes each
//
// Slots of a series are exchanged so that those of one bucket lie in different banks.
#pragma once
#include "state.h"

// The shared memory of a block of 128 threads, `room` words for each warp.
template <u32 room>
DEVICE u64* state_room() {
  SHARED u64 all[4 * room];
  return all + thread_x() / 32 * room;
}

// The words that a warp has for states of two fields, and of any number.
const u32 kRoomOfSums = 640, kRoom = 1216;

// Where a warp's states go, and what waits of them.
struct StateLines {
  u32* __restrict__ n;  // of the warp's first series
  double* __restrict__ fields;
  u64 row;      // fields of a series
  u32 buckets;  // of a series
  u32 many;     // fields of a state
  u32 width;    // buckets that wait at most, a power of two: as many as there is room for
  u32 first;    // the next bucket that is stored, a multiple of the width
  u32 waiting;  // buckets
  u64* room;

  // The first field of this thread's state of the next bucket, and how far apart fields are.
  DEVICE double* state() const { return (double*)room + slot(); }
  DEVICE u32 apart() const { return 32 * width; }

  // Ends the next bucket, which has so many samples. All lanes of the warp end theirs.
  DEVICE void end(u32 samples);

 private:
  DEVICE u32 slot() const {
    u32 lane = thread_x() % 32;
    return lane * width + (waiting ^ (lane * width / 16 % width));
  }
};

// Stores what waits: each lane the bucket of its number, modulo the width, of every so many'th series.
NOINLINE void store_states(StateLines l) {
  warp_barrier();
  u32 lane = thread_x() % 32, k = lane % l.width, row = lane / l.width, rows = 32 / l.width;
  if (k < l.waiting) {
    u32* n = l.n + (u64)row * l.buckets + l.first + k;
    double* fields = l.fields + row * l.row + field_at(0, l.first + k, l.buckets, l.many);
    NO_UNROLL for (u32 i = 0; i < l.width; i++) {
      const double* from = (const double*)l.room + i * 32 + lane - k + (k ^ ((2 * i + lane / 16) % l.width));
      double* to = fields;
      *n = ((const u32*)(l.room + l.many * l.apart()))[from - (const double*)l.room];
      UNROLL for (u32 f = 0; f < l.many; f++) {
        *to = *from;
        from += l.apart();
        to += kBlock;
      }
      n += rows * l.buckets;
      fields += rows * l.row;
    }
  }
  warp_barrier();
}

DEVICE void StateLines::end(u32 samples) {
  ((u32*)(room + many * apart()))[slot()] = samples;
  if (++waiting < width) return;
  store_states(*this);
  first += waiting;
  waiting = 0;
}
