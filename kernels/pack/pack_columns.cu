// pack_columns: tiles of decoded chunks to packed tiles, see ../abi/packed.h.
//
// Computes: the packed tile at words[tile], of each tile that has one, of what pack_measure said of
//   its chunks and of their columns.
// Grid: x four tiles of chunks, a block of 128 threads.
// A thread owns a chunk.
// Bytes per sample: reads 16; writes 2 to 12, and 48 a chunk.
// Operations per sample: about 15.
#include "../abi/packed.h"

KERNEL MAX_THREADS(128) pack_columns(u32 count, const u64* __restrict__ rows, const Decoded* __restrict__ chunks,
                                     const i64* __restrict__ times, const double* __restrict__ values,
                                     const PackedChunk* __restrict__ packs, const PackedWord* __restrict__ words) {
  u32 id = block_x() * threads_x() + thread_x(), lane = id % 32;
  if (id >= count || !words[id / 32]) return;
  PackedWord word = words[id / 32];
  u32 kind = kind_of(word), n = chunks[id].samples;
  u64 at = rows[id / 32] * 32 + lane;
  u8* to = (u8*)tile_of(word);
  PackedChunk c = packs[id];
  ((PackedChunk*)to)[lane] = c;
  u8* t = to + 32 * sizeof(PackedChunk);
  u8* v = t + (u64)rows_of(word) * 32 * time_bytes(kind) + lane * value_bytes(kind);
  t += lane * time_bytes(kind);
  for (u32 i = 0; i < n; i++) {
    if ((kind & kTimesOf) == kAfterFirst) ((u32*)t)[i * 32] = (u32)(times[at + (u64)i * 32] - c.begin);
    double value = values[at + (u64)i * 32];
    u64 u = (u64)(__builtin_rint(value * c.unit) - c.base);
    switch (kind & kValuesOf) {
      case kQuarter: ((unsigned short*)v)[i * 32] = (unsigned short)u; break;
      case kHalf: ((u32*)v)[i * 32] = (u32)u; break;
      default: ((double*)v)[i * 32] = value;
    }
  }
}
