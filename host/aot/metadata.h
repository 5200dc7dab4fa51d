// What lowering found out about the inputs and outputs of a graph, in the terms of PyTorch's
// metadata analysis: for explanations, and for comparing with it.
#pragma once

#include "aot/lower.h"

#include <string>

namespace tenon {

enum class MutationType : uint8_t { not_mutated, in_graph, out_graph };
enum class OutputType : uint8_t {
  non_alias,
  alias_of_input,
  is_input,
  alias_of_intermediate_save_as_output,
  alias_of_intermediate,
  alias_of_intermediate_base_is_user_output,
  unsafe_view_alias,  ///< a view of memory that no other output shows
};

struct InputInfo {
  bool mutates_data = false, mutates_metadata = false, under_no_grad = false;
  bool requires_grad = false;
  MutationType mutation = MutationType::not_mutated;
};
struct OutputInfo {
  OutputType type = OutputType::non_alias;
  /// The input, the output or the intermediate base that it is a view of.
  std::optional<uint32_t> base;
  bool requires_grad = false;
};
struct AotMetadata {
  std::vector<InputInfo> inputs;    ///< tensors and numbers, in order
  std::vector<OutputInfo> outputs;  ///< those of the captured graph
  uint32_t n_intermediate_bases = 0;
};

AotMetadata metadata_of(const Graph& captured, const Lowered& lowered);

/// "ALIAS_OF_INPUT" and the like in lower case, as PyTorch names them.
std::string to_text(OutputType type);
std::string to_text(MutationType type);

}  // namespace tenon
