// A custom aggregate's program on the host: the instructions that package resample/custom/ptx has
// put into a kernel's PTX, interpreted. The host half of ../custom/custom.h.
//
//   { // custom.add %fd7, %rd3, %fd9, %rd5, %r6      the place, and what the kernel gives to it
//   .reg .f64 %x<4>;                                 registers of its own
//   mov.f64 %x0, %fd7;
//   ...
//   }
//
// A module's text has each place once or more, always with the same instructions. They are checked
// as a driver's compiler would: that each is known, and that its registers are declared, with the
// types that it takes.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace host {

// An instruction: its number in a table, and places of what it reads and writes in the registers.
struct Instruction {
  u32 op;
  u32 at[4];
};

// What is in one place of a kernel.
struct Place {
  std::vector<u32> given;  // registers of what the kernel gives and gets
  std::vector<Instruction> body;
};

struct Program {
  std::map<std::string, Place> blocks;  // by place, such as "fetch 0"
  std::vector<u64> registers;

  // Reads the program of a module's text; null where it has none. What is wrong goes to fault.
  static std::unique_ptr<Program> read(const std::string& ptx, std::string& fault);

  // Runs what is in a place. The first of the values is set to what is in its register then.
  void run(const char* place, std::vector<u64>& values);
};

// The program of the kernel that runs, or null.
extern Program* program;

// Runs what is in a place.
u64 custom(const char* place, std::vector<u64> values);
u64 custom(const char* place, u32 number, std::vector<u64> values);

}  // namespace host

inline void custom_begin() { host::custom("begin", {}); }
inline void custom_add(double v, i64 t, double last_v, i64 last_t, u32 n) {
  host::custom("add", {as_bits(v), (u64)t, as_bits(last_v), (u64)last_t, n});
}
inline double custom_result(i64 start, i64 end) { return as_double(host::custom("result", {0, (u64)start, (u64)end})); }
inline void custom_load(const double* at, u64 stride) { host::custom("load", {(u64)at, stride * 8}); }
inline void custom_store(double* at, u64 stride) { host::custom("store", {(u64)at, stride * 8}); }
inline void custom_fetch(u32 j, const double* at, u64 stride) { host::custom("fetch", j, {(u64)at, stride * 8}); }
inline void custom_one(u32 j, double v) { host::custom("one", j, {as_bits(v)}); }
inline void custom_take(u32 j) { host::custom("take", j, {}); }
inline void custom_merge_other(u32 j) { host::custom("merge", j, {}); }
