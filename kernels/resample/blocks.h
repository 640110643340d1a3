// Where fields of states lie.
#pragma once
#include "../abi/compiler.h"

const u32 kBlock = 4;  // buckets, see States in state.h

// The place of the first field of bucket k of a row, of states of so many fields.
DEVICE u64 field_at(u32 row, u32 k, u32 buckets, u32 many) {
  u32 blocks = (buckets + kBlock - 1) / kBlock;
  return ((u64)row * blocks + k / kBlock) * many * kBlock + k % kBlock;
}
