#include "memory.h"

#include <sys/mman.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "machine.h"
#include "stream.h"

namespace host {
namespace {

enum class Kind { kDevice, kLocked, kRegistered };

struct Piece {
  Kind kind;
  int device;
  size_t bytes;
};

// By address. Each piece is an allocation of its own, so that AddressSanitizer
// sees what reads or writes outside of it.
std::map<uintptr_t, Piece>& pieces() {
  static auto* all = new std::map<uintptr_t, Piece>;
  return *all;
}

size_t used(int device) {
  size_t n = 0;
  for (auto& p : pieces()) {
    if (p.second.kind == Kind::kDevice && p.second.device == device) n += p.second.bytes;
  }
  return n;
}

void* take(Kind kind, size_t bytes) {
  void* at = nullptr;
  if (posix_memalign(&at, 256, bytes)) return nullptr;
  // Of huge pages: to fault in small ones takes most of filling them.
  constexpr uintptr_t kHuge = 2 << 20;
  uintptr_t from = ((uintptr_t)at + kHuge - 1) & ~(kHuge - 1), to = ((uintptr_t)at + bytes) & ~(kHuge - 1);
  if (from < to) madvise((void*)from, to - from, MADV_HUGEPAGE);
  memset(at, 0xA5, bytes);  // nothing may count on zeros
  pieces()[(uintptr_t)at] = {kind, current_device, bytes};
  return at;
}

int give_back(Kind kind, uintptr_t at) {
  auto p = pieces().find(at);
  if (p == pieces().end() || p->second.kind != kind) return kInvalidValue;
  drain_streams();
  if (kind != Kind::kRegistered) free((void*)at);
  pieces().erase(p);
  return kSuccess;
}

}  // namespace

long held_memory() { return (long)pieces().size(); }

void drop_memory() {
  for (int d = 0; d < 64; d++) drop_memory_of(d);
}

void drop_memory_of(int device) {
  for (auto p = pieces().begin(); p != pieces().end();) {
    if (p->second.device != device) {
      ++p;
      continue;
    }
    if (p->second.kind != Kind::kRegistered) free((void*)p->first);
    p = pieces().erase(p);
  }
}

bool is_device_memory(int device, const void* at, size_t bytes) {
  auto p = pieces().upper_bound((uintptr_t)at);
  if (p == pieces().begin()) return false;
  --p;
  return p->second.kind == Kind::kDevice && p->second.device == device &&
         (uintptr_t)at + bytes <= p->first + p->second.bytes;
}

}  // namespace host

using namespace host;

EXPORT int cuMemGetInfo_v2(size_t* free_bytes, size_t* total) {
  ENTER(cuMemGetInfo_v2);
  NEED_CONTEXT;
  *total = machine().memory;
  *free_bytes = machine().memory - used(current_device);
  return kSuccess;
}

EXPORT int cuMemAlloc_v2(uintptr_t* at, size_t bytes) {
  ENTER(cuMemAlloc_v2);
  NEED_CONTEXT;
  if (bytes == 0) return kInvalidValue;
  if (bytes > machine().memory - used(current_device)) return kOutOfMemory;
  *at = (uintptr_t)take(Kind::kDevice, bytes);
  return *at ? kSuccess : kOutOfMemory;
}

EXPORT int cuMemFree_v2(uintptr_t at) {
  ENTER(cuMemFree_v2);
  NEED_CONTEXT;
  return give_back(Kind::kDevice, at);
}

EXPORT int cuMemHostAlloc(void** at, size_t bytes, unsigned) {
  ENTER(cuMemHostAlloc);
  NEED_CONTEXT;
  if (bytes == 0) return kInvalidValue;
  *at = take(Kind::kLocked, bytes);
  return *at ? kSuccess : kOutOfMemory;
}

EXPORT int cuMemFreeHost(void* at) {
  ENTER(cuMemFreeHost);
  NEED_CONTEXT;
  return give_back(Kind::kLocked, (uintptr_t)at);
}

EXPORT int cuMemHostRegister_v2(void* at, size_t bytes, unsigned) {
  ENTER(cuMemHostRegister_v2);
  NEED_CONTEXT;
  if (!at || bytes == 0) return kInvalidValue;
  if (!pieces().insert({(uintptr_t)at, {Kind::kRegistered, current_device, bytes}}).second) return kAlreadyRegistered;
  return kSuccess;
}

EXPORT int cuMemHostUnregister(void* at) {
  ENTER(cuMemHostUnregister);
  NEED_CONTEXT;
  int code = give_back(Kind::kRegistered, (uintptr_t)at);
  return code == kInvalidValue ? kNotRegistered : code;
}
