// Every kernel, compiled for the host. A new one needs its #include and a line in
// the table, which says whether its threads wait for each other.
#include "launch.h"

#include <utility>

#include "../check.cu"
#include "../decode_mixed.cu"
#include "../decode_series.cu"
#include "../decode_xor.cu"
#include "../fold_xor.cu"
#include "../fused_all.cu"
#include "../fused_all_mixed.cu"
#include "../fused_ends.cu"
#include "../fused_ends_mixed.cu"
#include "../fused_rate.cu"
#include "../fused_rate_mixed.cu"
#include "../group_fold.cu"
#include "../group_fold_squares.cu"
#include "../group_quantile.cu"
#include "../group_rank.cu"
#include "../group_result.cu"
#include "../group_sum.cu"
#include "../historic/resample_atomic.cu"
#include "../historic/resample_blocks.cu"
#include "../historic/resample_runs.cu"
#include "../historic/resample_shared.cu"
#include "../map_values.cu"
#include "../series_rows.cu"
#include "../step_reads.cu"
#include "../window_all.cu"
#include "../window_ends.cu"
#include "../window_fold.cu"
#include "../window_join.cu"
#include "../window_order.cu"
#include "../window_pairs.cu"
#include "../window_panes.cu"
#include "../window_rate.cu"

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

template <auto f>
Kernel entry(const char* name, bool waits) {
  return {name, Caller<f>::call, Caller<f>::sizes, waits};
}

}  // namespace

const Kernel* find_kernel(const std::string& name) {
  static const Kernel all[] = {
      entry<check>("check", true),
      entry<decode_mixed>("decode_mixed", false),
      entry<decode_series>("decode_series", false),
      entry<decode_xor>("decode_xor", false),
      entry<fold_xor>("fold_xor", false),
      entry<fused_all>("fused_all", false),
      entry<fused_all_mixed>("fused_all_mixed", false),
      entry<fused_ends>("fused_ends", false),
      entry<fused_ends_mixed>("fused_ends_mixed", false),
      entry<fused_rate>("fused_rate", false),
      entry<fused_rate_mixed>("fused_rate_mixed", false),
      entry<group_fold>("group_fold", false),
      entry<group_fold_squares>("group_fold_squares", true),
      entry<group_quantile>("group_quantile", true),
      entry<group_rank>("group_rank", true),
      entry<group_result>("group_result", false),
      entry<group_sum>("group_sum", true),
      entry<resample_atomic>("resample_atomic", false),
      entry<resample_blocks>("resample_blocks", false),
      entry<resample_runs>("resample_runs", false),
      entry<resample_shared>("resample_shared", true),
      entry<map_values>("map_values", false),
      entry<series_rows>("series_rows", true),
      entry<step_reads>("step_reads", false),
      entry<window_all>("window_all", false),
      entry<window_ends>("window_ends", false),
      entry<window_fold>("window_fold", false),
      entry<window_join>("window_join", false),
      entry<window_order>("window_order", false),
      entry<window_pairs>("window_pairs", false),
      entry<window_panes>("window_panes", false),
      entry<window_rate>("window_rate", false),
  };
  for (const Kernel& k : all) {
    if (name == k.name) return &k;
  }
  return nullptr;
}

}  // namespace host
