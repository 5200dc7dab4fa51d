// From a graph as captured to what an ahead-of-time backend gets: functional, without mutation.
//
// The graph is recorded again on fakes. In-place ops become their functional forms, views are made
// anew from the current value of their base, and what callers can observe is put right around the
// compiled code: inputs that the graph wrote are written back, outputs that alias inputs are made
// as views of them, an output that is an input is that very tensor.
#pragma once

#include "graph/artifact.h"

#include <functional>
#include <memory>
#include <vector>

namespace tenon {

struct LowerOptions {
  /// Ops that are recorded as their decomposition; unset: only those that have no other meaning.
  std::function<bool(const OpEntry&)> decomposes;
  /// The graph ends with copy_ into its mutated inputs; otherwise the wrapper copies.
  bool keep_input_mutations = false;
};

/// How one output of the original graph is made from what the functional graph gives.
struct OutputRecipe {
  enum class Kind : uint8_t {
    result,
    input,
    view_of_input,
    view_of_result,
    undefined
  } kind = Kind::undefined;
  uint32_t index = 0;  ///< output of the functional graph, or input
  TensorMeta view;     ///< of views: sizes and strides, which may be symbolic
  SymInt offset;       ///< of views: absolute, in elements of the storage
};

struct LoweredInference {
  std::shared_ptr<Graph> graph;
  std::vector<OutputRecipe> outputs;
  /// Outputs of the functional graph to be copied into inputs after the run, in order.
  struct WriteBack {
    uint32_t output, input;
  };
  std::vector<WriteBack> write_backs;
  std::vector<uint32_t> mutated_inputs;  ///< that the graph itself writes
  size_t n_original_outputs = 0;
};

LoweredInference lower_inference(const Graph& captured, const LowerOptions& options);

/// The artifact of the original graph, over the artifact of the lowered one.
std::shared_ptr<Artifact> wrap_inference(LoweredInference lowered, std::shared_ptr<Artifact> inner);

/// Whether `set` ("none", "core_aten", "inductor", or "list" with `ops`) takes an op apart.
std::function<bool(const OpEntry&)> decomposition_set(const std::string& set,
                                                      const std::vector<std::string>& ops);

}  // namespace tenon
