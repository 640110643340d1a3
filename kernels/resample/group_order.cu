// group_order: quantiles of the values that all series of a group have in a bucket.
//
// Computes, of the n values v(0) <= v(1) ... of group g in bucket k, NaN first: v(r)*(1-w) +
//   v(r+1)*w, where r + w = quantile*(n-1), for each of some quantiles: out[s*groups*buckets+
//   g*buckets+k].
// Grid: some blocks of 32 or 256 threads.
// A block owns one group at one bucket, and then another, in strides of the grid. It looks for up to two
//   quantiles at once by samples of the keys, 1024 in shared memory: see group_order.h.
// Bytes per sample: reads 8 once, and 16 or less of those near the ranks; two to four times in groups of
//   hundreds of thousands of samples; nine times more where that fails. Reads 8 a run as often.
// Operations per sample: 6 a quantile and visit.
#include "group_order.h"

// 64 registers a thread, so that 32 warps of a multiprocessor wait for keys at once.
#define GROUP_ORDER_THREADS MAX_THREADS_AND_BLOCKS(256, 4)

KERNEL GROUP_ORDER_THREADS group_order(GROUP_ORDER_PARAMETERS) { order_groups(GROUP_ORDER_JOB); }
