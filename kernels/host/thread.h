// What a kernel sees when it is compiled for the host: where its thread is, and
// how it waits for others. The counterpart of the device half of ../abi/compiler.h.
#pragma once
#include <cmath>

#define KERNEL extern "C" void
#define DEVICE inline
// One block runs at a time, its threads in turns: see ENTER in machine.h.
#define SHARED static
#define NOINLINE static inline
#define MAX_THREADS(n)
#define MAX_THREADS_AND_BLOCKS(n, blocks)
#define UNROLL
#define NO_UNROLL

namespace host {

struct Index {
  u32 x, y, z;
};

// The thread that runs now, and its launch.
struct Position {
  Index thread, block, threads, blocks;
};
extern Position here;

// Both stop the launch with an error if the kernel is not registered as one
// whose threads wait for each other.
void wait_block();
void wait_warp();
u32 exchange_down(u32 v, u32 down);
const u32 kMostWords = 16;  // that a thread brings to a shuffle
void exchange_xor(const u64* v, u64* got, u32 n, u32 other);

}  // namespace host

inline u32 thread_x() { return host::here.thread.x; }
inline u32 thread_y() { return host::here.thread.y; }
inline u32 block_x() { return host::here.block.x; }
inline u32 block_y() { return host::here.block.y; }
inline u32 threads_x() { return host::here.threads.x; }
inline u32 threads_y() { return host::here.threads.y; }
inline u32 blocks_x() { return host::here.blocks.x; }
inline u32 blocks_y() { return host::here.blocks.y; }
inline void barrier() { host::wait_block(); }
inline void warp_barrier() { host::wait_warp(); }
inline u32 shuffle_down(u32 v, u32 down) { return host::exchange_down(v, down); }
template <u32 n>
inline void shuffle_xor(const u64 (&v)[n], u64 (&got)[n], u32 other) {
  static_assert(n <= host::kMostWords);
  host::exchange_xor(v, got, n, other);
}
inline u32 funnel(u32 hi, u32 lo, u32 n) {
  n &= 31;
  return n ? hi << n | lo >> (32 - n) : hi;
}
inline void store_streaming(u64* to, u64 v) { *to = v; }
inline u32 load_if(bool there, const void* at, u32 other) { return there ? *(const u32*)at : other; }
inline void prefetch(const void*) {}
template <class T>
inline T load_once(const T* at) {
  return *at;
}
inline double fused_multiply_add(double a, double b, double c) { return std::fma(a, b, c); }
inline double as_double(u64 v) {
  double d;
  __builtin_memcpy(&d, &v, sizeof d);
  return d;
}
inline u64 as_bits(double v) {
  u64 b;
  __builtin_memcpy(&b, &v, sizeof b);
  return b;
}
inline float magnitude(float v) { return std::fabs(v); }
inline u32 twice_less_one(u32 v) { return 2 * v - 1; }
inline double rough_reciprocal(double v) { return as_double(as_bits(1 / v) & ~0xffffffffull); }
inline void atomic_add(u32* at, u32 v) { *at += v; }
inline u32 atomic_next(u32* at, u32 v) {
  u32 was = *at;
  *at += v;
  return was;
}
inline void atomic_add(u64* at, u64 v) { *at += v; }
inline void atomic_max(u32* at, u32 v) { *at = *at < v ? v : *at; }
inline void atomic_min(u64* at, u64 v) { *at = v < *at ? v : *at; }
