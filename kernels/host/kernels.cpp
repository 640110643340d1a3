// Every kernel, compiled for the host.
#include "launch.h"

#include <utility>

#include "table.h"

namespace host {
namespace {

// Calls a kernel with parameters that lie behind pointers, as a driver gets them.
template <auto f>
struct Caller;
template <class... A, void (*f)(A...)>
struct Caller<f> {
  template <size_t... i>
  static void spread(void** p, std::index_sequence<i...>) {
    f(*(A*)p[i]...);
  }
  static void call(void** p) { spread(p, std::index_sequence_for<A...>()); }
  static std::vector<size_t> sizes() { return {sizeof(A)...}; }
};

}  // namespace

const Kernel* find_kernel(const std::string& name) {
  static const Kernel all[] = {
#define ENTRY(f, waits) {#f, Caller<f>::call, Caller<f>::sizes, waits, nullptr},
      KERNELS(ENTRY)
#undef ENTRY
  };
  for (const Kernel& k : all) {
    if (name == k.name) return &k;
  }
  return nullptr;
}

}  // namespace host
