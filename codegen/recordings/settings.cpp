// Sizes of options, and the plugin that keeps recordings.
#include "settings.h"

#include <charconv>

namespace recordings {

using tenon::plugin::error;
using tenon::plugin::graph;
using tenon::plugin::text;

const tn_cuda_api& cuda() {
  const auto* found = tenon::plugin::extension<tn_cuda_api>(TN_CUDA_ID, TN_CUDA_VERSION);
  if (!found || !TN_HAS(found, function_new))
    throw error(
        TN_FAILED_PRECONDITION,
        "the plugin cuda, which keeps recordings, is not loaded, or is older than this one");
  return *found;
}

// "4,128": one number for each symbol.
static std::vector<int64_t> numbers_of(std::string_view backend, const std::string& tuple) {
  std::vector<int64_t> out;
  const char *at = tuple.data(), *end = at + tuple.size();
  while (true) {
    int64_t number = 0;
    auto [next, problem] = std::from_chars(at, end, number);
    if (problem != std::errc() || (next != end && *next != ','))
      throw error(TN_INVALID_ARGUMENT,
                  text("{}.cudagraph_capture_sizes: \"{}\": expected numbers with commas between "
                       "them, such as \"4,128\"",
                       backend, tuple));
    out.push_back(number);
    if (next == end) return out;
    at = next + 1;
  }
}

Settings sized_settings(std::string_view backend, const std::vector<std::string>& capture_sizes,
                        const tn_compile_request& request) {
  Settings out;
  out.backend = backend;
  out.n_symbols = static_cast<uint32_t>(graph(request).symbols().size());
  out.has_sizes = !capture_sizes.empty() && out.n_symbols > 0;
  for (const std::string& tuple : capture_sizes) {
    std::vector<int64_t> numbers = numbers_of(backend, tuple);
    // Others are for graphs with as many symbols.
    if (numbers.size() == out.n_symbols)
      out.sizes.insert(out.sizes.end(), numbers.begin(), numbers.end());
  }
  return out;
}

}  // namespace recordings
