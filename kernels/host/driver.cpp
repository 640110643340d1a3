// Devices, contexts, modules and launches of the host driver: the functions that
// libcuda.so.1 exports under the same names, as far as promwarp calls them.
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <set>

#include "launch.h"
#include "machine.h"
#include "memory.h"
#include "program.h"
#include "stream.h"

using namespace host;

namespace {

struct Module {
  int device;
  std::string ptx;
  std::unique_ptr<Program> program;         // of a custom aggregate, or null
  std::map<std::string, Kernel> functions;  // that were asked for
};

std::map<int, int>& contexts() {  // how often each device's is retained
  static auto* all = new std::map<int, int>;
  return *all;
}

std::set<Module*>& modules() {
  static auto* all = new std::set<Module*>;
  return *all;
}

// A device's context is the address of an element, never 0.
uint64_t handles[64];

void drop_context(int device) {
  drop_streams_of(device);
  drop_memory_of(device);
  for (auto m = modules().begin(); m != modules().end();) {
    if ((*m)->device != device) {
      ++m;
      continue;
    }
    delete *m;
    m = modules().erase(m);
  }
  contexts().erase(device);
}

bool known(int device) { return device >= 0 && device < machine().devices; }

}  // namespace

namespace host {

long held_contexts() { return (long)(contexts().size() + modules().size()); }

void drop_contexts() {
  while (!contexts().empty()) drop_context(contexts().begin()->first);
  machine().initialized = false;
}

}  // namespace host

EXPORT int cuInit(unsigned) {
  ENTER(cuInit);
  if (machine().devices == 0) return kNoDevice;
  machine().initialized = true;
  return kSuccess;
}

EXPORT int cuDriverGetVersion(int* v) {
  ENTER(cuDriverGetVersion);
  *v = machine().version;
  return kSuccess;
}

EXPORT int cuGetErrorName(int code, const char** name) {
  *name = result_name(code);
  return *name ? kSuccess : kInvalidValue;
}

EXPORT int cuGetErrorString(int code, const char** text) {
  *text = result_text(code);
  return *text ? kSuccess : kInvalidValue;
}

EXPORT int cuDeviceGetCount(int* n) {
  ENTER(cuDeviceGetCount);
  if (!machine().initialized) return kNotInitialized;
  *n = machine().devices;
  return kSuccess;
}

EXPORT int cuDeviceGet(int* device, int ordinal) {
  ENTER(cuDeviceGet);
  if (!machine().initialized) return kNotInitialized;
  if (!known(ordinal)) return kInvalidDevice;
  *device = ordinal;
  return kSuccess;
}

EXPORT int cuDeviceGetName(char* name, int size, int device) {
  ENTER(cuDeviceGetName);
  if (!known(device)) return kInvalidDevice;
  snprintf(name, (size_t)size, "promwarp host device %d", device);
  return kSuccess;
}

EXPORT int cuDeviceGetPCIBusId(char* id, int size, int device) {
  ENTER(cuDeviceGetPCIBusId);
  if (!known(device)) return kInvalidDevice;
  snprintf(id, (size_t)size, "0000:%02x:00.0", device);
  return kSuccess;
}

EXPORT int cuDeviceTotalMem_v2(size_t* bytes, int device) {
  ENTER(cuDeviceTotalMem_v2);
  if (!known(device)) return kInvalidDevice;
  *bytes = machine().memory;
  return kSuccess;
}

EXPORT int cuDeviceGetAttribute(int* v, int attribute, int device) {
  ENTER(cuDeviceGetAttribute);
  if (!known(device)) return kInvalidDevice;
  switch (attribute) {
    case 16: *v = 1; break;  // multiprocessors
    case 75: *v = machine().major; break;
    case 76: *v = machine().minor; break;
    default: return kInvalidValue;
  }
  return kSuccess;
}

EXPORT int cuDevicePrimaryCtxSetFlags_v2(int device, unsigned) {
  ENTER(cuDevicePrimaryCtxSetFlags_v2);
  return known(device) ? kSuccess : kInvalidDevice;
}

EXPORT int cuDevicePrimaryCtxRetain(uint64_t** context, int device) {
  ENTER(cuDevicePrimaryCtxRetain);
  if (!known(device)) return kInvalidDevice;
  if (machine().lost.count(device)) return machine().lost[device];
  contexts()[device]++;
  *context = &handles[device];
  return kSuccess;
}

EXPORT int cuDevicePrimaryCtxRelease_v2(int device) {
  ENTER(cuDevicePrimaryCtxRelease_v2);
  auto c = contexts().find(device);
  if (c == contexts().end()) return kInvalidContext;
  if (--c->second == 0) drop_context(device);
  return kSuccess;
}

// A context of its own is the device's once more.
EXPORT int cuCtxCreate_v2(uint64_t** context, unsigned, int device) {
  ENTER(cuCtxCreate_v2);
  if (!known(device)) return kInvalidDevice;
  contexts()[device]++;
  *context = &handles[device];
  current_device = device;
  return kSuccess;
}

EXPORT int cuCtxDestroy_v2(uint64_t* context) {
  ENTER(cuCtxDestroy_v2);
  int device = (int)(context - handles);
  auto c = contexts().find(device);
  if (c == contexts().end()) return kInvalidContext;
  if (--c->second == 0) drop_context(device);
  return kSuccess;
}

EXPORT int cuCtxSetCurrent(uint64_t* context) {
  ENTER(cuCtxSetCurrent);
  int device = context ? (int)(context - handles) : -1;
  if (context && !contexts().count(device)) return kInvalidContext;
  current_device = device;
  return kSuccess;
}

// Takes the log's buffer from the options, and says there what is wrong.
EXPORT int cuModuleLoadDataEx(Module** m, const char* ptx, unsigned n, const int* options, void** values) {
  ENTER(cuModuleLoadDataEx);
  NEED_CONTEXT;
  char* log = nullptr;
  size_t size = 0;
  for (unsigned i = 0; i < n; i++) {
    if (options[i] == 5) log = (char*)values[i];
    if (options[i] == 6) size = (size_t)values[i];
  }
  if (!strstr(ptx, ".version")) {
    if (log) snprintf(log, size, "host driver: no .version");
    return kInvalidImage;
  }
  if (!strstr(ptx, ".target")) {
    if (log) snprintf(log, size, "host driver: no .target");
    return kInvalidPtx;
  }
  std::string fault;
  std::unique_ptr<Program> program = Program::read(ptx, fault);
  if (!fault.empty()) {
    if (log) snprintf(log, size, "host driver: %s", fault.c_str());
    return kInvalidPtx;
  }
  *m = new Module{current_device, ptx, std::move(program), {}};
  modules().insert(*m);
  return kSuccess;
}

EXPORT int cuModuleUnload(Module* m) {
  ENTER(cuModuleUnload);
  NEED_CONTEXT;
  if (!modules().erase(m)) return kInvalidHandle;
  drain_streams();
  delete m;
  return kSuccess;
}

EXPORT int cuModuleGetFunction(const Kernel** k, Module* m, const char* name) {
  ENTER(cuModuleGetFunction);
  NEED_CONTEXT;
  if (!modules().count(m)) return kInvalidHandle;
  const Kernel* known = find_kernel(name);
  bool in_ptx = m->ptx.find(std::string(".entry ") + name + "(") != std::string::npos;
  if (!known || !in_ptx) return kNotFound;
  Kernel& mine = m->functions[name] = *known;
  mine.program = m->program.get();
  *k = &mine;
  return kSuccess;
}

EXPORT int cuLaunchKernel(const Kernel* k, unsigned bx, unsigned by, unsigned bz, unsigned tx, unsigned ty, unsigned tz,
                          unsigned, uint64_t stream, void** params, void**) {
  ENTER(cuLaunchKernel);
  NEED_CONTEXT;
  if (!k) return kInvalidHandle;
  if (!bx || !by || !bz || !tx || !ty || !tz || by > 65535 || bz > 65535 || (uint64_t)tx * ty * tz > 1024) {
    return kInvalidValue;
  }
  // The caller may change its parameters once the call returns.
  std::vector<std::string> copies;
  std::vector<size_t> sizes = k->sizes();
  for (size_t i = 0; i < sizes.size(); i++) copies.emplace_back((char*)params[i], sizes[i]);
  return enqueue(stream, [=]() mutable {
    std::vector<void*> at;
    for (auto& c : copies) at.push_back(&c[0]);
    std::string failure = run(*k, {bx, by, bz}, {tx, ty, tz}, at.data());
    if (failure.empty()) return (int)kSuccess;
    fprintf(stderr, "host driver: kernel %s: %s\n", k->name, failure.c_str());
    return settle(kLaunchFailed);
  });
}
