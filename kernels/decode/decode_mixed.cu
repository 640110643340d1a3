// decode_mixed: decode_series for chunks of which some, or all, are XOR2 chunks.
//
// Computes, grid, a thread owns, bytes, operations: those of decode_series. The threads of
//   a warp take both ways where both formats are among its 32 chunks.
#include "columns.h"

KERNEL MAX_THREADS(128) decode_mixed(DECODE_PARAMETERS) {
  decode_columns<true>(slab, entries, wide, since, count, rows, packed, times, values, chunks, drop, fault, fault_base);
}
