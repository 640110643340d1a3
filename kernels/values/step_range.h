// Which values a thread owns: those of one series at a range of steps.
#pragma once
#include "../abi/compiler.h"

struct StepRange {
  u32 tile;      // of series
  u32 lane;      // in it
  u32 from, to;  // steps
};

// The range of this thread in a grid of tiles of series by ranges of `length` steps.
DEVICE StepRange my_steps(u32 steps, u32 length) {
  u32 id = block_x() * threads_x() + thread_x();
  u32 from = block_y() * length;
  u32 to = from + length;
  return StepRange{id / 32, id % 32, from, to < steps ? to : steps};
}
