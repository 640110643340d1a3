// Ranges of time that are told to a profiler: what a library of NVTX exports, as far
// as promwarp calls it.
#include "machine.h"

using namespace host;

EXPORT uint64_t nvtxRangeStartA(const char* name) {
  static uint64_t last;
  std::lock_guard<std::recursive_mutex> held(machine().lock);
  machine().open_ranges[++last] = name;
  return last;
}

EXPORT void nvtxRangeEnd(uint64_t id) {
  std::lock_guard<std::recursive_mutex> held(machine().lock);
  auto r = machine().open_ranges.find(id);
  if (r == machine().open_ranges.end()) return;
  machine().ranges[r->second]++;
  machine().open_ranges.erase(r);
}

// How many ranges of a name have begun and ended since the last reset.
EXPORT long promwarp_host_ranges(const char* name) {
  std::lock_guard<std::recursive_mutex> held(machine().lock);
  auto r = machine().ranges.find(name);
  return r == machine().ranges.end() ? 0 : r->second;
}
