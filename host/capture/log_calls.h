// Calls of log functions that wait for the end of a graph.
#pragma once

#include <tenon/compiler.h>

#include <string>
#include <vector>

namespace tenon {

/// Where a graph's input, or an output of the call, comes from.
struct ValueOrigin {
  enum class Kind : uint8_t { leaf, implicit, graph, number, undefined } kind = Kind::undefined;
  uint32_t index = 0;
};

/// A call that was met while recording, on fakes.
struct PendingLogCall {
  std::string name, text;
  std::vector<Tensor> tensors;
};
/// The same as part of an entry: run after its code.
struct LogCall {
  std::string name, text;
  std::vector<ValueOrigin> tensors;
};

/// Calls the function of that name. Throws UserError for an unknown one.
void run_log_fn(std::string_view name, std::string_view text, std::span<const Tensor> tensors);

}  // namespace tenon
