// group_order_few: group_order for groups of few series: 1024 keys in shared memory, so that more blocks are
// at work.
//
// Computes: what group_order does.
// Grid: as of group_order.
// A block owns one group at one bucket.
// Bytes per sample: reads 8, once where there are at most 1024 samples.
// Operations per sample: 14, 4 a quantile and visit, and 9 a rank and digit.
#include "group_order.h"

KERNEL MAX_THREADS(256) group_order_few(GROUP_ORDER_PARAMETERS) { group_order_in<1024>(GROUP_ORDER_JOB); }
