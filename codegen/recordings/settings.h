// What the options and flags of a compile ask of its recordings.
#pragma once

#include <tenon/cuda.h>
#include <tenon/plugin.hpp>

#include <string>
#include <string_view>
#include <vector>

namespace recordings {

struct Settings {
  std::string backend;   ///< whose options they are, for messages
  uint32_t flags = 0;    ///< TN_CUDA_FN_...
  uint32_t outputs = 0;  ///< TN_CUDA_OUTPUTS_...
  bool is_blocking = false, divides = false, or_error = false, skips_dynamic = false;
  bool has_sizes = false;      ///< only `sizes` are recorded
  std::vector<int64_t> sizes;  ///< tuples of all symbols, one after the other
  uint32_t n_symbols = 0;
  uint32_t max_sizes = 0, size_warn_limit = 0, rerecord_limit = 0, min_nodes = 0;
  uint64_t arena_bytes = 0;
};

/// For saved code: see loopir/fields.h.
template <class V>
void fields(V& v, Settings& s) {
  v(s.backend), v(s.flags), v(s.outputs);
  v(s.is_blocking), v(s.divides), v(s.or_error), v(s.skips_dynamic), v(s.has_sizes);
  v(s.sizes), v(s.n_symbols), v(s.max_sizes), v(s.size_warn_limit), v(s.rerecord_limit);
  v(s.min_nodes), v(s.arena_bytes);
}

/// Settings for the request with the sizes that the option cudagraph_capture_sizes lists.
Settings sized_settings(std::string_view backend, const std::vector<std::string>& capture_sizes,
                        const tn_compile_request& request);

/// From the options of a manifest that has those of recordings. `managed_writes`: what writes
/// results of other recordings is recorded, too.
template <class Given>
Settings settings_of(const Given& given, std::string_view backend, bool managed_writes,
                     const tn_compile_request& request) {
  Settings out = sized_settings(backend, given.cudagraph_capture_sizes, request);
  auto on = [](bool is_on, uint32_t flag) { return is_on ? flag : 0; };
  out.flags = on(given.skip_cudagraph_warmup, TN_CUDA_FN_RECORD_AT_ONCE) |
              on(given.force_cudagraphs_warmup, TN_CUDA_FN_FORCE_WARMUP) |
              on(given.force_cudagraph_sync, TN_CUDA_FN_SYNC) |
              on(given.cudagraph_or_error, TN_CUDA_FN_OR_ERROR) |
              on(given.cuda_graph_poison, TN_CUDA_FN_POISON) |
              on(given.slow_path_cudagraph_asserts || given.fast_path_cudagraph_asserts,
                 TN_CUDA_FN_CHECKED) |
              on(!managed_writes, TN_CUDA_FN_NO_MANAGED_WRITES) |
              on(request.stage == TN_STAGE_FORWARD, TN_CUDA_FN_FORWARD);
  bool pools = given.cuda_graph_outputs == Given::cuda_graph_outputs_choice::pool;
  out.outputs = pools ? TN_CUDA_OUTPUTS_POOL : TN_CUDA_OUTPUTS_FRESH;
  out.is_blocking = given.cuda_launch_blocking;
  out.divides = given.graph_partition;
  out.or_error = given.cudagraph_or_error;
  out.skips_dynamic = given.cudagraph_skip_dynamic_graphs;
  out.max_sizes = static_cast<uint32_t>(given.cuda_graph_max_sizes);
  out.size_warn_limit = static_cast<uint32_t>(given.cudagraph_dynamic_shape_warn_limit);
  out.rerecord_limit = static_cast<uint32_t>(given.cudagraph_unexpected_rerecord_limit);
  out.min_nodes = static_cast<uint32_t>(given.cudagraph_min_partition_size);
  out.arena_bytes = static_cast<uint64_t>(given.cuda_graph_arena_initial_mb) << 20;
  return out;
}

/// The table of the plugin cuda. Throws where it is not loaded.
const tn_cuda_api& cuda();

}  // namespace recordings
