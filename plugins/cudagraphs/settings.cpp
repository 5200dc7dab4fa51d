// Options of plugin.toml and flags of the host to settings.
#include "settings.h"

#include <cudagraphs_options.h>

#include <charconv>

namespace cudagraphs {

using tenon::plugin::error;
using tenon::plugin::graph;
using tenon::plugin::text;
using Given = tenon::plugin::cudagraphs_options;

const tn_cuda_api& cuda() {
  const auto* found = tenon::plugin::extension<tn_cuda_api>(TN_CUDA_ID, TN_CUDA_VERSION);
  if (!found || !TN_HAS(found, function_new))
    throw error(
        TN_FAILED_PRECONDITION,
        "the plugin cuda, which keeps recordings, is not loaded, or is older than this one");
  return *found;
}

namespace {

// "4,128": one number for each symbol.
std::vector<int64_t> numbers_of(const std::string& tuple) {
  std::vector<int64_t> out;
  const char *at = tuple.data(), *end = at + tuple.size();
  while (true) {
    int64_t number = 0;
    auto [next, problem] = std::from_chars(at, end, number);
    if (problem != std::errc() || (next != end && *next != ','))
      throw error(TN_INVALID_ARGUMENT,
                  text("cudagraphs.cudagraph_capture_sizes: \"{}\": expected numbers with commas "
                       "between them, such as \"4,128\"",
                       tuple));
    out.push_back(number);
    if (next == end) return out;
    at = next + 1;
  }
}

void read_sizes(const Given& given, const tn_compile_request& request, Settings& out) {
  out.n_symbols = static_cast<uint32_t>(graph(request).symbols().size());
  out.has_sizes = !given.cudagraph_capture_sizes.empty() && out.n_symbols > 0;
  for (const std::string& tuple : given.cudagraph_capture_sizes) {
    std::vector<int64_t> numbers = numbers_of(tuple);
    // Others are for graphs with as many symbols.
    if (numbers.size() == out.n_symbols)
      out.sizes.insert(out.sizes.end(), numbers.begin(), numbers.end());
  }
}

uint32_t flags_of(const Given& given, const tn_compile_request& request) {
  bool managed_writes = tenon::plugin::options(request).config<bool>(
      "dynamo.cudagraph_backend_support_input_mutation");
  auto on = [](bool is_on, uint32_t flag) { return is_on ? flag : 0; };
  return on(given.skip_cudagraph_warmup, TN_CUDA_FN_RECORD_AT_ONCE) |
         on(given.force_cudagraphs_warmup, TN_CUDA_FN_FORCE_WARMUP) |
         on(given.force_cudagraph_sync, TN_CUDA_FN_SYNC) |
         on(given.cudagraph_or_error, TN_CUDA_FN_OR_ERROR) |
         on(given.cuda_graph_poison, TN_CUDA_FN_POISON) |
         on(given.slow_path_cudagraph_asserts || given.fast_path_cudagraph_asserts,
            TN_CUDA_FN_CHECKED) |
         on(!managed_writes, TN_CUDA_FN_NO_MANAGED_WRITES) |
         on(request.stage == TN_STAGE_FORWARD, TN_CUDA_FN_FORWARD);
}

}  // namespace

Settings settings_of(const tn_compile_request& request) {
  Given given = Given::read(request);
  Settings out;
  out.flags = flags_of(given, request);
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
  read_sizes(given, request, out);
  return out;
}

}  // namespace cudagraphs
