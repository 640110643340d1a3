// The machine that the host driver plays: its devices, what is to fail, and what
// callers hold.
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>

#include "result.h"

namespace host {

// A fault to come: the n-th call of a name from now on gives a code.
struct Fault {
  long nth;
  int code;
};

struct Machine {
  std::recursive_mutex lock;
  int devices = 1;
  int version = 12080;            // of the driver API
  size_t memory = 1ull << 30;     // bytes a device
  int major = 9, minor = 0;       // compute capability
  std::map<std::string, Fault> faults;
  std::map<std::string, long> calls;  // since the last reset
  bool initialized = false;
  std::map<int, int> lost;        // devices on which a kernel went wrong, and how
};

Machine& machine();

// Reads settings such as "devices=2,memory=1048576,cuMemAlloc_v2:3=2": a number
// for a key, or a code for the n-th call of a name. False if it makes no sense.
bool configure(Machine& m, const char* settings);

// Counts a call and returns the code of a fault that is due, or kSuccess.
int enter(const char* name);

// Notes that a code is the result of work of the current device. Some are the
// end of it, as on a GPU: every call fails as long as the process runs.
int settle(int code);

// The device whose context is current on this thread, or -1.
extern thread_local int current_device;

}  // namespace host

// The prologue of every driver function: one at a time, and faults first.
#define ENTER(name)                                                \
  std::lock_guard<std::recursive_mutex> held(host::machine().lock); \
  if (int fault = host::settle(host::enter(#name))) return fault
#define NEED_CONTEXT                                               \
  if (host::current_device < 0) return host::kInvalidContext;      \
  if (host::machine().lost.count(host::current_device)) return host::machine().lost[host::current_device]
#define EXPORT extern "C" __attribute__((visibility("default")))
