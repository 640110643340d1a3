// group_sum: sums of the series of each group, one a step, by a fixed tree.
//
// Computes: sums[g*steps+k] = the values of group g's series at step k, and counts[...] = how
//   many there are. members[first[g]] to members[first[g+1]-1] are the series; s has
//   values[s*steps+k] if bit k of present[s*words...] is set. Eight parts, each added in the
//   order of the series and keeping what each addition loses (Neumaier 1974), are joined as
//   ((0+4)+(2+6))+((1+5)+(3+7)). Nothing depends on the order in which threads run: the same
//   input gives the same bits.
// Grid: x a tile of 32 steps; y groups, in strides of the grid. Blocks of 32 by 8.
// Thread (x, y) owns step x of the tile and every eighth series of the group from the y-th on.
// Bytes per series and step: reads 8 and a bit. Writes 12 a group and step.
// Operations per series and step: about 10.
#include "../values/aggregate.h"

struct Sum {
  double sum, lost;
};

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
        add_compensated(values[(u64)series * steps + step], s.sum, s.lost);
        n++;
      }
    }
    part[y][x] = s;
    seen[y][x] = n;
    for (u32 half = 4; half > 0; half /= 2) {
      barrier();
      if (y < half) {
        add_compensated(part[y + half][x].sum, part[y][x].sum, part[y][x].lost);
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
