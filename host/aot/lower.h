// From a graph as captured to what an ahead-of-time backend gets: functional, without mutation.
//
// The graph is recorded again on fakes. In-place ops become their functional forms, views are made
// anew from the current value of their base, and what callers can observe is put right around the
// compiled code: inputs that the graph wrote are written back, outputs that alias inputs are made
// as views of them, an output that is an input is that very tensor.
#pragma once

#include "aot/view_inverse.h"
#include "graph/artifact.h"
#include "ops/modes/autocast_state.h"

#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace tenon {

/// A fact of nodes of training graphs: to the tape, the result has the history of what it
/// overwrites, not that of what it is computed from.
constexpr const char* older_history = "older_history";

struct LowerOptions {
  /// Ops that are recorded as their decomposition; unset: only those that have no other meaning.
  std::function<bool(const OpEntry&)> decomposes;
  /// The graph ends with copy_ into its mutated inputs; otherwise the wrapper copies.
  bool keep_input_mutations = false;
  bool remove_dead_code = true;
  bool merge_expressions = true;  ///< what is computed twice is computed once
  /// The gradients of the inputs that need them are computed too; input mutations are not kept.
  bool training = false;
  /// What is lowered is a body of such a graph: it keeps where gradients end.
  bool is_body_of_training = false;
  bool is_differentiated() const { return training || is_body_of_training; }
  /// Training: the autocast state under which gradients are recorded.
  AutocastState backward_autocast;
};

/// How one output of the original graph is made from what the functional graph gives.
struct OutputRecipe {
  enum class Kind : uint8_t {
    result,
    input,
    view_of_input,
    view_of_result,
    output,  ///< the very tensor of an earlier output
    undefined
  } kind = Kind::undefined;
  uint32_t index = 0;          ///< output of the functional graph, input, or earlier output
  TensorMeta view;             ///< of views: sizes and strides, which may be symbolic
  SymInt offset;               ///< of views: from the memory's own, in elements of the view
  bool requires_grad = false;  ///< of training graphs
  bool is_view = false;        ///< a view of memory that the graph makes or is given
  bool is_part = false;        ///< one of several views that one op has made
  bool shows_all = false;      ///< of views: the very elements of the memory, as they lie
  bool is_tracked = false;     ///< of views: the tape knows them as such
  bool is_older = false;       ///< of views: the memory was written since they were made
  /// Of views of what detach() gives, where several outputs show that: its number, and whether this
  /// is the tensor itself. To the tape it is no view, and the others are its views.
  uint32_t detached = no_value;
  bool is_detached = false;
  /// Of views that need a gradient: the views from the memory on, where they can be made again.
  std::vector<ViewStep> replay;
};

/// Memory that several inputs show of which the graph writes one: they are a single input of the
/// functional graph, one-dimensional, from the lowest to the highest element of them all.
struct SharedInput {
  std::vector<uint32_t> members;  ///< inputs of the original graph
  Dtype dtype = Dtype::f32;       ///< of that one: real where some show complex numbers, some parts
};

/// What a joint graph computes besides the results: their derivative. After the inputs that the
/// forward reads come the tangents, after its results the gradients.
struct Derivative {
  uint32_t n_primals = 0, n_results = 0;
  std::vector<uint32_t> tangents;   ///< by tangent: the result whose gradient it is
  std::vector<uint32_t> ranks;      ///< by tangent: higher where a later op of the program made it
  std::vector<uint32_t> gradients;  ///< by gradient: the input of the functional graph
  /// By tangent: the gradients that the tape comes to from it, be it with zeros.
  std::vector<std::vector<uint32_t>> reached;
  /// Data-dependent symbols, and the results, after those of the forward, that tell them.
  std::vector<std::pair<const Expr*, uint32_t>> symbols;
};

struct Lowered {
  std::shared_ptr<Graph> graph;
  std::vector<SharedInput> shared;  ///< the first inputs of the functional graph
  std::vector<uint32_t> kept;       ///< its further inputs: inputs of the original graph, in order
  std::vector<OutputRecipe> outputs;
  /// Outputs of the functional graph to be copied into its inputs after the run, in order.
  struct WriteBack {
    uint32_t output, input;
    bool without_grad = false;  ///< all writes were made while gradients were off
  };
  std::vector<WriteBack> write_backs;
  /// Inputs whose sizes and strides the graph changed in place (t_, unsqueeze_ ...), after the
  /// rest.
  struct Restride {
    uint32_t input;
    TensorMeta view;
    SymInt offset;  ///< from the input's own, in elements
    /// All changes were made while gradients were off.
    bool without_grad = false;
  };
  std::vector<Restride> restrides;
  /// Data-dependent symbols in `view`s, and the outputs of the functional graph that tell them.
  struct ShownSymbol {
    const Expr* symbol;
    uint32_t output;
  };
  std::vector<ShownSymbol> shown_symbols;
  std::vector<uint32_t> mutated_inputs;  ///< of the functional graph, which itself writes them
  size_t n_original_outputs = 0;
  std::optional<Derivative> derivative;  ///< of joint graphs
};

Lowered lower_inference(const Graph& captured, const LowerOptions& options);
/// The function and its derivative in one graph, recorded on the tape; without `derivative` where
/// no result needs a gradient. Throws UserError (unsupported, data_dependent) where that cannot be
/// done ahead.
Lowered lower_training(const Graph& captured, LowerOptions options);

/// Nodes of the lowered graph that write become functional ones: parts of ops that the program adds,
/// their derivatives and the rules of passes may have some. Returns whether there were any. Throws
/// UserError (unsupported) where they write an argument of the compiled function.
bool remove_writes(Lowered& lowered, const LowerOptions& options);
/// Another graph takes the place of the lowered one.
void replace_graph(Lowered& lowered, std::shared_ptr<Graph> graph);

/// The artifact of the original graph, over the artifact of the lowered one.
std::shared_ptr<Artifact> wrap_inference(Lowered lowered, std::shared_ptr<Artifact> inner);

/// Whether `set` ("none", "core_aten", "inductor", or "list" with `ops`) takes an op apart; those
/// of `kept` it does not.
std::function<bool(const OpEntry&)> decomposition_set(const std::string& set,
                                                      const std::vector<std::string>& ops,
                                                      const std::vector<std::string>& kept = {});

}  // namespace tenon
