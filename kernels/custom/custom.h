// A custom aggregate in a kernel: what its program does at each place.
//
// The program is not known when kernels are compiled. Each place is a pseudo-instruction in the PTX,
//
//   custom.add %fd7, %rd3, %fd9, %rd5, %r6;
//
// which package resample/custom/ptx replaces by the program's instructions before the PTX is loaded.
// A thread's state is in registers that it declares at the kernel's beginning, %cs, and up to
// kStatesAhead others in %co0_, %co1_ and so on: the compiler of the kernel knows nothing of them.
// PTX that still has a pseudo-instruction does not load.
#pragma once
#include "../abi/compiler.h"

const u32 kStatesAhead = 4;  // others that a thread has

#ifdef __CUDA__
#define CUSTOM(...) asm volatile("custom." __VA_ARGS__)

// Begins the state of a run.
DEVICE void custom_begin() { CUSTOM("begin;" ::); }
// Adds the sample v at t, ms, which has n others before it in its run, the last of them these.
DEVICE void custom_add(double v, i64 t, double last_v, i64 last_t, u32 n) {
  CUSTOM("add %0, %1, %2, %3, %4;" ::"d"(v), "l"(t), "d"(last_v), "l"(last_t), "r"(n));
}
// The result of the state, of a window from start to end, ms.
DEVICE double custom_result(i64 start, i64 end) {
  double out;
  CUSTOM("result %0, %1, %2;" : "=d"(out) : "l"(start), "l"(end));
  return out;
}
// Loads and stores the state: field f is at[f*stride]. The kernel's own code must not read or write
// what these do: the compiler may put its accesses on either side.
DEVICE void custom_load(const double* at, u64 stride) { CUSTOM("load %0, %1;" ::"l"(at), "l"(stride * 8)); }
DEVICE void custom_store(double* at, u64 stride) { CUSTOM("store %0, %1;" ::"l"(at), "l"(stride * 8) : "memory"); }
// Loads the other state of number j, or makes it of one value.
DEVICE void custom_fetch(u32 j, const double* at, u64 stride) {
  CUSTOM("fetch %0, %1, %2;" ::"n"(j), "l"(at), "l"(stride * 8));
}
DEVICE void custom_one(u32 j, double v) { CUSTOM("one %0, %1;" ::"n"(j), "d"(v)); }
// Has the state be the other one of number j, or merges that, which comes later, into it.
DEVICE void custom_take(u32 j) { CUSTOM("take %0;" ::"n"(j)); }
DEVICE void custom_merge_other(u32 j) { CUSTOM("merge %0;" ::"n"(j)); }
#else
#include "../host/program.h"
#endif
