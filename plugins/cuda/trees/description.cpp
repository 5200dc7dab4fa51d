// Reading what a function is.
#include <tenon/plugin.hpp>

#include "function.h"

namespace tenon::cuda::trees {

using plugin::error;
using plugin::sv;
using plugin::text;

namespace {

constexpr uint32_t most_sizes = 32, sizes_to_warn = 8, most_recordings = 128;

void require(bool holds, const char* what) {
  if (!holds) throw error(TN_INVALID_ARGUMENT, text("a function of tenon.cuda/1: {}", what));
}

void read_values(const tn_cuda_value* values, uint32_t n, std::vector<uint32_t>& flags,
                 std::vector<std::string>& names) {
  require(n == 0 || values, "inputs and outputs need their info");
  for (uint32_t i = 0; i < n; ++i) {
    flags.push_back(values[i].flags);
    names.emplace_back(sv(values[i].name));
  }
}

}  // namespace

Description Description::read(const tn_cuda_function_info& info) {
  require(info.struct_size >= offsetof(tn_cuda_function_info, constants), "its info is too short");
  require(info.launch, "launch is missing");
  require(info.outputs <= TN_CUDA_OUTPUTS_POOL, "outputs is neither FRESH nor POOL");
  require(info.n_capture_sizes == 0 || info.capture_sizes, "capture_sizes is missing");
  Description d{};
  d.flags = info.flags;
  d.outputs = info.outputs;
  d.device = info.device;
  d.name = sv(info.name);
  read_values(info.input_info, info.n_inputs, d.input_flags, d.input_names);
  read_values(info.output_info, info.n_outputs, d.output_flags, d.output_names);
  d.n_syms = info.n_syms;
  for (uint32_t i = 0; i < info.n_capture_sizes; ++i) {
    const int64_t* tuple = info.capture_sizes + size_t{i} * info.n_syms;
    d.capture_sizes.emplace_back(tuple, tuple + info.n_syms);
  }
  d.max_sizes = info.max_sizes ? info.max_sizes : most_sizes;
  d.size_warn_limit = info.size_warn_limit ? info.size_warn_limit : sizes_to_warn;
  d.rerecord_limit = info.rerecord_limit ? info.rerecord_limit : most_recordings;
  d.min_nodes = info.min_nodes;
  d.arena_bytes = info.arena_bytes;
  d.self = info.self;
  d.launch = info.launch;
  d.drop = info.drop;
  bool has_constants = info.struct_size >= sizeof info;
  uint32_t n_constants = has_constants ? info.n_constants : 0;
  for (uint32_t i = 0; i < n_constants; ++i)
    d.constants.push_back(plugin::tensor::share(info.constants[i]));
  return d;
}

}  // namespace tenon::cuda::trees
