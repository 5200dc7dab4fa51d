// What the options and flags of a compile ask of its recordings.
#pragma once

#include <tenon/cuda.h>
#include <tenon/plugin.hpp>

#include <string>
#include <vector>

namespace cudagraphs {

struct Settings {
  uint32_t flags = 0;    ///< TN_CUDA_FN_...
  uint32_t outputs = 0;  ///< TN_CUDA_OUTPUTS_...
  bool is_blocking = false, divides = false, or_error = false, skips_dynamic = false;
  bool has_sizes = false;      ///< only `sizes` are recorded
  std::vector<int64_t> sizes;  ///< tuples of all symbols, one after the other
  uint32_t n_symbols = 0;
  uint32_t max_sizes = 0, size_warn_limit = 0, rerecord_limit = 0, min_nodes = 0;
  uint64_t arena_bytes = 0;
};

Settings settings_of(const tn_compile_request& request);

/// The table of the plugin cuda. Throws where it is not loaded.
const tn_cuda_api& cuda();

}  // namespace cudagraphs
