// decode_mixed: decode_series for chunks of which some, or all, are XOR2 chunks. The
// threads of a warp take both ways where both kinds are among its 32 chunks.
#include "packed.h"

KERNEL MAX_THREADS(128) decode_mixed(SERIES_PARAMETERS) {
  decode_packed<true>(slab, entries, wide, since, count, rows, times, values, chunks, drop, fault, fault_base);
}
