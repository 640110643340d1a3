// fold_xor: XOR chunks to two numbers each, stored nowhere in between. It shows
// how fast decoding is when nothing has to be written.
//
// Grid: one thread a chunk, blocks of 128.
// A thread owns its chunk.
// Reads the chunk table (16 bytes a chunk) and the chunks' bytes, once.
// Writes a Fold (16 bytes) and a status (4 bytes) a chunk.
// With chunks of 120 samples in 3 bytes each: 3.3 bytes of traffic a sample.
#include "xor.h"

// Mirrors kernels.Fold.
struct Fold {
  u64 times;   // sum of the timestamps in ms, modulo 2^64
  double sum;  // of the values, added in their order
};

struct Folder {
  Fold fold;
  DEVICE bool operator()(u32, u64 t, u64 v) {
    fold.times += t;
    fold.sum += as_double(v);
    return true;
  }
};

KERNEL MAX_THREADS(128) fold_xor(const u8* __restrict__ slab, const ChunkRef* __restrict__ chunks, u32 count,
                                 Fold* __restrict__ folds, u32* __restrict__ status) {
  u32 id = block_x() * threads_x() + thread_x();
  if (id >= count) return;
  Folder folder{{0, 0}};
  status[id] = decode_chunk(slab, chunks[id], folder);
  folds[id] = folder.fold;
}
