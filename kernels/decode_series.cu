// decode_series: the XOR chunks of series to columns, for the window kernels.
//
// Grid: one thread a chunk, blocks of 128.
// A thread owns its chunk. 32 neighbouring chunks are a tile: those of 32 series at
// one position. A chunk of no samples stands for a series that has fewer chunks
// than others of its tile.
// Reads and writes as decode_xor does, and a Decoded (16 bytes) a chunk. With `drop` stale markers are left out: the samples
// behind them move up.
// A corrupt chunk, or one with samples outside its stated time range, lowers *fault
// to fault_base + 256 times its number + its status.
#include "packed.h"

KERNEL MAX_THREADS(128) decode_series(SERIES_PARAMETERS) {
  decode_packed<false>(slab, entries, wide, since, count, rows, times, values, chunks, drop, fault, fault_base);
}
