#include "machine.h"

#include <cstdio>
#include <cstdlib>

#include "memory.h"
#include "stream.h"

namespace host {

thread_local int current_device = -1;

Machine& machine() {
  static Machine* m = [] {
    auto* fresh = new Machine;
    if (const char* s = getenv("PROMWARP_HOST_CUDA")) {
      if (!configure(*fresh, s)) {
        fprintf(stderr, "host driver: PROMWARP_HOST_CUDA=%s makes no sense\n", s);
        abort();
      }
    }
    return fresh;
  }();
  return *m;
}

static bool configure_one(Machine& m, const std::string& item) {
  size_t eq = item.find('=');
  if (eq == std::string::npos) return false;
  std::string key = item.substr(0, eq);
  char* end;
  long value = strtol(item.c_str() + eq + 1, &end, 10);
  if (*end) return false;
  size_t colon = key.find(':');
  if (colon != std::string::npos) {
    long nth = strtol(key.c_str() + colon + 1, &end, 10);
    if (*end || nth < 1) return false;
    m.faults[key.substr(0, colon)] = {nth, (int)value};
  } else if (key == "devices") {
    m.devices = (int)value;
  } else if (key == "version") {
    m.version = (int)value;
  } else if (key == "memory") {
    m.memory = (size_t)value;
  } else if (key == "capability") {
    m.major = (int)value / 10;
    m.minor = (int)value % 10;
  } else {
    return false;
  }
  return true;
}

bool configure(Machine& m, const char* settings) {
  std::string s = settings;
  for (size_t at = 0; at < s.size();) {
    size_t comma = s.find(',', at);
    if (comma == std::string::npos) comma = s.size();
    if (!configure_one(m, s.substr(at, comma - at))) return false;
    at = comma + 1;
  }
  return true;
}

int enter(const char* name) {
  Machine& m = machine();
  m.calls[name]++;
  auto f = m.faults.find(name);
  if (f != m.faults.end() && --f->second.nth == 0) {
    int code = f->second.code;
    m.faults.erase(f);
    return code;
  }
  return kSuccess;
}

int settle(int code) {
  if (code == kIllegalAddress || code == kLaunchFailed) machine().lost.insert({current_device, code});
  return code;
}

}  // namespace host

using namespace host;

// Back to one device and no faults, with everything given back.
EXPORT void promwarp_host_reset() {
  Machine& m = machine();
  std::lock_guard<std::recursive_mutex> held(m.lock);
  drop_streams();
  drop_memory();
  drop_contexts();
  m.devices = 1, m.version = 12080, m.memory = 1ull << 30, m.major = 9, m.minor = 0;
  m.lost.clear();
  m.faults.clear();
  m.calls.clear();
}

// Changes settings while the program runs; 0 if they make sense.
EXPORT int promwarp_host_configure(const char* settings) {
  std::lock_guard<std::recursive_mutex> held(machine().lock);
  return configure(machine(), settings) ? 0 : 1;
}

// How often a driver function was called since the last reset.
EXPORT long promwarp_host_calls(const char* name) {
  std::lock_guard<std::recursive_mutex> held(machine().lock);
  auto c = machine().calls.find(name);
  return c == machine().calls.end() ? 0 : c->second;
}

// How many contexts, modules, allocations, registrations, streams and events
// callers have and have not given back.
EXPORT long promwarp_host_held() {
  std::lock_guard<std::recursive_mutex> held(machine().lock);
  return held_contexts() + held_memory() + held_streams();
}
