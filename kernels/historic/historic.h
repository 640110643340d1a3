// What the historic kernels need besides compiler.h: floats that several threads add
// to. promwarp's own kernels never do, for sums would depend on who comes first.
#pragma once
#include "../abi/compiler.h"

#ifdef __CUDA__
DEVICE void atomic_add(float* at, float v) { __nvvm_atom_add_gen_f(at, v); }
#else
inline void atomic_add(float* at, float v) { *at += v; }
#endif
