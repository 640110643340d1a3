// group_sum: sums of the series of each group, one a step, by a fixed tree.
//
// Grid: x a tile of 32 steps; y groups, in strides of the grid. Blocks of 32 by 8.
// Thread (x, y) owns step x of the tile and every eighth series of the group from
// the y-th on, and adds those in their order, keeping what each addition loses
// (Neumaier 1974); the eight parts are then joined as ((0+4)+(2+6))+((1+5)+(3+7)).
// Nothing depends on the order in which threads run: the same input gives the
// same bits.
// Reads 8 bytes and a bit a series and step: values[s*steps+k], and whether it is
// there, bit k of present[s*words...]. members[first[g]] to members[first[g+1]-1]
// are the series of group g.
// Writes sums[g*steps+k] and counts[g*steps+k], 12 bytes a group and step.
#include "shim.h"

struct Sum {
  double sum, lost;
};

// The branches and the infinity rule are those of Prometheus's kahansum.Inc.
DEVICE void add(Sum& s, double v) {
  double t = s.sum + v;
  if (__builtin_fabs(t) == __builtin_inf()) {
    s.lost = 0;
  } else if (__builtin_fabs(s.sum) >= __builtin_fabs(v)) {
    s.lost += (s.sum - t) + v;
  } else {
    s.lost += (v - t) + s.sum;
  }
  s.sum = t;
}

KERNEL MAX_THREADS(256) group_sum(const double* __restrict__ values, const u32* __restrict__ present,
                                  const u32* __restrict__ members, const u32* __restrict__ first, u32 groups, u32 steps,
                                  double* __restrict__ sums, u32* __restrict__ counts) {
  SHARED Sum part[8][32];
  SHARED u32 seen[8][32];
  u32 x = thread_x(), y = thread_y();
  u32 step = block_x() * 32 + x;
  u32 words = (steps + 31) / 32;
  for (u32 g = block_y(); g < groups; g += blocks_y()) {
    Sum s{0, 0};
    u32 n = 0;
    for (u32 i = first[g] + y; i < first[g + 1]; i += 8) {
      u32 series = members[i];
      if (step < steps && present[(u64)series * words + step / 32] >> (step % 32) & 1) {
        add(s, values[(u64)series * steps + step]);
        n++;
      }
    }
    part[y][x] = s;
    seen[y][x] = n;
    for (u32 half = 4; half > 0; half /= 2) {
      barrier();
      if (y < half) {
        add(part[y][x], part[y + half][x].sum);
        part[y][x].lost += part[y + half][x].lost;
        seen[y][x] += seen[y + half][x];
      }
    }
    if (y == 0 && step < steps) {
      sums[(u64)g * steps + step] = part[0][x].sum + part[0][x].lost;
      counts[(u64)g * steps + step] = seen[0][x];
    }
    barrier();
  }
}
