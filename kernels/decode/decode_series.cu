// decode_series: the XOR chunks of series to columns, for the window kernels.
//
// Computes: times[i], values[i] = the samples of each chunk, in their order. With `drop`
//   stale markers are left out: the samples behind them move up. Reports a Decoded a chunk.
//   A corrupt chunk, or one with samples outside its stated time range, lowers *fault to
//   fault_base + 256 times its number + its status.
// Grid: one thread a chunk, blocks of 128.
// A thread owns its chunk. 32 neighbouring chunks are a tile: those of 32 series at one
//   position. A chunk of no samples stands for a series that has fewer chunks than others
//   of its tile.
// Bytes per sample, with chunks of 120 samples in 3 bytes each: reads 3.2, with the table
//   (16 bytes a chunk); writes 16.1, with the Decoded (16 bytes a chunk).
// Operations per sample: about 100, nearly all of them integers, to read two codes.
#include "columns.h"

KERNEL MAX_THREADS(128) decode_series(DECODE_PARAMETERS) {
  decode_columns<false>(slab, entries, wide, since, count, rows, packed, times, values, chunks, drop, fault, fault_base);
}
