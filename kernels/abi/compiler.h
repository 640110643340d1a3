// What a kernel needs of its compiler, instead of CUDA's headers: clang gives it
// for the device, ../host/thread.h for the host.
#pragma once

typedef unsigned char u8;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef int i32;
typedef long long i64;
typedef u32 Flag;  // 0 or 1, a bool in Go
typedef double F64x2 __attribute__((vector_size(16)));

#ifdef __CUDA__
#define KERNEL extern "C" __attribute__((global)) void
#define DEVICE inline __attribute__((device, always_inline))
#define SHARED __attribute__((shared))
#define MAX_THREADS(n) __attribute__((launch_bounds(n)))
// The same, where so many blocks are to fit into a multiprocessor: its registers are
// shared out accordingly.
#define MAX_THREADS_AND_BLOCKS(n, blocks) __attribute__((launch_bounds(n, blocks)))
// A function of its own, for what is rare.
#define NOINLINE static inline __attribute__((device, noinline))
// Before a loop over an array that is to stay in registers.
#define UNROLL _Pragma("unroll")
// Before a loop whose instructions would be too many without it.
#define NO_UNROLL _Pragma("nounroll")

DEVICE u32 thread_x() { return __nvvm_read_ptx_sreg_tid_x(); }
DEVICE u32 thread_y() { return __nvvm_read_ptx_sreg_tid_y(); }
DEVICE u32 block_x() { return __nvvm_read_ptx_sreg_ctaid_x(); }
DEVICE u32 block_y() { return __nvvm_read_ptx_sreg_ctaid_y(); }
DEVICE u32 threads_x() { return __nvvm_read_ptx_sreg_ntid_x(); }
DEVICE u32 threads_y() { return __nvvm_read_ptx_sreg_ntid_y(); }
DEVICE u32 blocks_x() { return __nvvm_read_ptx_sreg_nctaid_x(); }
DEVICE u32 blocks_y() { return __nvvm_read_ptx_sreg_nctaid_y(); }
// Every thread of the block waits for every other.
DEVICE void barrier() { __syncthreads(); }
// Every lane of the warp waits for the others, and sees what they wrote.
DEVICE void warp_barrier() { __nvvm_bar_warp_sync(~0u); }
// The value that the lane `down` lanes above holds; all 32 lanes take part.
DEVICE u32 shuffle_down(u32 v, u32 down) { return __nvvm_shfl_sync_down_i32(~0u, v, down, 31); }
// The values that the lane holds whose number differs in the bits of `other`; all 32 lanes take part.
template <u32 n>
DEVICE void shuffle_xor(const u64 (&v)[n], u64 (&got)[n], u32 other) {
  UNROLL for (u32 i = 0; i < n; i++) {
    u32 lower = __nvvm_shfl_sync_bfly_i32(~0u, (u32)v[i], other, 31);
    u32 upper = __nvvm_shfl_sync_bfly_i32(~0u, (u32)(v[i] >> 32), other, 31);
    got[i] = (u64)upper << 32 | lower;
  }
}
// The upper 32 bits of hi:lo shifted left by n modulo 32.
DEVICE u32 funnel(u32 hi, u32 lo, u32 n) {
  u32 r;
  asm("shf.l.wrap.b32 %0, %1, %2, %3;" : "=r"(r) : "r"(lo), "r"(hi), "r"(n));
  return r;
}
// Stores what will not be read again soon, without keeping it in the caches.
DEVICE void store_streaming(u64* to, u64 v) { asm volatile("st.global.cs.u64 [%0], %1;" ::"l"(to), "l"(v) : "memory"); }
// Has the 32 bytes around an address come as near as the second cache, without waiting for them.
DEVICE void prefetch(const void* at) { asm volatile("prefetch.global.L2 [%0];" ::"l"(at)); }
// Loads what will not be read again, so that it leaves the caches first.
DEVICE double load_once(const double* at) {
  double v;
  asm("ld.global.cs.f64 %0, [%1];" : "=d"(v) : "l"(at));
  return v;
}
DEVICE u32 load_once(const u32* at) {
  u32 v;
  asm("ld.global.cs.u32 %0, [%1];" : "=r"(v) : "l"(at));
  return v;
}
DEVICE u32 load_once(const unsigned short* at) {
  u32 v;
  asm("{\n\t.reg .u16 h;\n\tld.global.cs.u16 h, [%1];\n\tcvt.u32.u16 %0, h;\n\t}" : "=r"(v) : "l"(at));
  return v;
}
// The word at an address if there is one, else another, without a branch that loads would wait behind.
DEVICE u32 load_if(bool there, const void* at, u32 other) {
  u32 v;
  asm volatile("{\n\t.reg .pred p;\n\tsetp.ne.u32 p, %3, 0;\n\tmov.u32 %0, %2;\n\t@p ld.global.u32 %0, [%1];\n\t}"
               : "=&r"(v) : "l"(at), "r"(other), "r"((u32)there) : "memory");
  return v;
}
// Integers that several threads change.
DEVICE void atomic_add(u32* at, u32 v) { __nvvm_atom_add_gen_i((i32*)at, (i32)v); }
// The same, and what was there before.
DEVICE u32 atomic_next(u32* at, u32 v) { return (u32)__nvvm_atom_add_gen_i((i32*)at, (i32)v); }
DEVICE void atomic_add(u64* at, u64 v) { __nvvm_atom_add_gen_ll((i64*)at, (i64)v); }
DEVICE void atomic_max(u32* at, u32 v) { __nvvm_atom_max_gen_ui(at, v); }
DEVICE void atomic_min(u64* at, u64 v) { __nvvm_atom_min_gen_ull(at, v); }
// a*b+c, rounded once.
DEVICE double fused_multiply_add(double a, double b, double c) { return __nvvm_fma_rn_d(a, b, c); }
// |v|, which the compiler of PTX makes part of a comparison if the one before it does not make it an integer's.
DEVICE float magnitude(float v) {
  asm("abs.f32 %0, %0;" : "+f"(v));
  return v;
}
// 2v-1, in one instruction.
DEVICE u32 twice_less_one(u32 v) {
  asm("mad.lo.u32 %0, %0, 2, 0xffffffff;" : "+r"(v));
  return v;
}
// 1/v, to 18 bits of integers below 2^16, as ../probe/check.cu finds.
DEVICE double rough_reciprocal(double v) { return __nvvm_rcp_approx_ftz_d(v); }
// The double with these bits, and back.
DEVICE double as_double(u64 v) { return __builtin_bit_cast(double, v); }
DEVICE u64 as_bits(double v) { return __builtin_bit_cast(u64, v); }
#else
#include "../host/thread.h"
#endif
