// decode_mixed: decode_series for chunks of which some, or all, are XOR2 chunks. The
// threads of a warp take both ways where both kinds are among its 32 chunks.
#include "packed.h"

KERNEL MAX_THREADS(128) decode_mixed(const u8* __restrict__ slab, const SeriesChunk* __restrict__ refs, u32 count,
                                     const u64* __restrict__ rows, u64* __restrict__ times, u64* __restrict__ values,
                                     Decoded* __restrict__ chunks, u32 drop, u64* __restrict__ fault, u64 fault_base) {
  u32 id = block_x() * threads_x() + thread_x();
  decode_packed<true>(id, slab, refs, count, rows, times, values, chunks, drop, fault, fault_base);
}
