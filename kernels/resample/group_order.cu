// group_order: quantiles of the values that all series of a group have in a bucket.
//
// Computes, of the n values v(0) <= v(1) ... of group g in bucket k, NaN first: v(r)*(1-w) +
//   v(r+1)*w, where r + w = quantile*(n-1), for each of some quantiles: out[s*groups*buckets+
//   g*buckets+k].
// Grid: x buckets; y groups, in strides of the grid; blocks of up to 256 threads, in whole warps.
// A block owns one group at one bucket. It looks for up to two quantiles at once by samples of the
//   keys, 5120 in shared memory: see group_order.h. A warp has 32 neighbouring series of the group.
// Bytes per sample: reads 8, once in most groups of up to 100 000 samples, up to four times in groups
//   of millions, nine times more where that fails. Reads 28 a run as often, and 36 for the sample.
// Operations per sample: 14, and 4 a quantile and visit.
#include "group_order.h"

// 64 registers a thread, so that 32 warps of a multiprocessor wait for keys at once.
#define GROUP_ORDER_THREADS MAX_THREADS_AND_BLOCKS(256, 4)

KERNEL GROUP_ORDER_THREADS group_order(GROUP_ORDER_PARAMETERS) { group_order_in<5120>(GROUP_ORDER_JOB); }
