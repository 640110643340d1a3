// group_distinct: how many different values all series of a group have in a bucket.
//
// Computes: out[g*buckets+k] = the number of different keys among those of group g in bucket k, where
//   both zeros are one.
// Grid: x buckets; y groups, in strides of the grid; blocks of 32 to 256 threads.
// A block owns one group at one bucket. It puts keys into a table of 4096 in shared memory, by their
//   hash. Where that has no place for one, it begins again with those keys alone whose hash begins
//   with a 0 bit, and then with a 1 bit, and so on with more bits: a hash is another for another key,
//   so that in the end all have a place. A thread has every so many'th series of the group.
// Bytes per sample: reads 8 for each part of the keys, one if few are different. Reads 8 a run as often.
// Operations per sample: 12.
#include "group_runs.h"

const u32 kPlaces = 4096;     // of the table
const u32 kTries = 32;        // places that are looked at for a key
const u64 kZeroKey = 1ull << 63;  // the key of 0

#ifdef __CUDA__
DEVICE u64 compare_and_swap(u64* at, u64 old, u64 v) { return (u64)__nvvm_atom_cas_gen_ll((i64*)at, (i64)old, (i64)v); }
#else
inline u64 compare_and_swap(u64* at, u64 old, u64 v) {
  u64 was = *at;
  if (was == old) *at = v;
  return was;
}
#endif

// A hash that is another for another key: MurmurHash3's last step.
DEVICE u64 hash_of(u64 key) {
  key = (key ^ key >> 33) * 0xff51afd7ed558ccd;
  key = (key ^ key >> 33) * 0xc4ceb9fe1a85ec53;
  return key ^ key >> 33;
}

KERNEL MAX_THREADS(256) group_distinct(const u64* __restrict__ in_rows, const u64* __restrict__ keys,
                                       const u64* __restrict__ key_rows, const u32* __restrict__ members,
                                       const u32* __restrict__ first, u32 groups, u32 buckets,
                                       const u32* __restrict__ group_n, double* __restrict__ out) {
  SHARED u64 table[kPlaces];
  SHARED u32 entries, full;
  u32 me = thread_x(), k = block_x();
  for (u32 g = block_y(); g < groups; g += blocks_y()) {
    u32 total = group_n[(u64)g * buckets + k];
    if (total == 0) continue;
    GroupRuns runs{in_rows, keys, {key_rows}, members + first[g], first[g + 1] - first[g], buckets, k, 1};
    runs.share(total);
    u64 part = 0, count = 0;  // of 1 << bits parts
    u32 bits = 0;
    do {
      barrier();  // all have read what is there
      for (u32 i = me; i < kPlaces; i += threads_x()) table[i] = kNoKey;
      if (me == 0) entries = full = 0;
      barrier();
      runs.each([&](u64 key) {
        if (key == kNoKey) return;
        if (key == kZeroKey - 1) key = kZeroKey;  // that of -0
        u64 hash = hash_of(key);
        if (bits > 0 && hash >> (64 - bits) != part) return;
        u32 at = (u32)hash % kPlaces;
        for (u32 i = 0; i < kTries; i++) {
          u64 has = table[at];
          if (has == kNoKey) has = compare_and_swap(&table[at], kNoKey, key);
          if (has == kNoKey) atomic_add(&entries, 1u);
          if (has == kNoKey || has == key) return;
          at = (at + 1) % kPlaces;
        }
        full = 1;
      });
      barrier();
      if (full) {
        bits++;
        part *= 2;
      } else {
        count += entries;
        part++;
      }
    } while (part >> bits == 0);
    if (me == 0) out[(u64)g * buckets + k] = (double)count;
  }
}
