// Running a launch: the blocks of a grid one after the other, each with its
// threads.
#pragma once
#include "../abi/compiler.h"

#include <cstddef>
#include <string>
#include <vector>

namespace host {

struct Program;

// A kernel that the library holds.
struct Kernel {
  const char* name;
  void (*call)(void** params);     // one thread
  std::vector<size_t> (*sizes)();  // of the parameters, in bytes
  bool waits;                      // whether its threads wait for each other
  Program* program;                // of a custom aggregate that its PTX has, or null
};

const Kernel* find_kernel(const std::string& name);

// Runs every thread of the launch. An empty string, or what went wrong. Only one
// launch may run at a time.
std::string run(const Kernel& k, Index blocks, Index threads, void** params);

}  // namespace host
