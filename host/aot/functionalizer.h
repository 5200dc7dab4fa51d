// The worker behind functionalisation: the state of one graph that is recorded again; see
// functionalize.cpp for the method.
#pragma once

#include "aot/lower.h"
#include "aot/view_inverse.h"
#include "graph/record.h"

#include <tenon/autograd.h>

#include <deque>
#include <map>
#include <optional>

namespace tenon {

/// The latest value of one storage.
struct Base {
  Tensor current;
  uint32_t generation = 0;
  uint32_t input = no_value;     ///< an input of the original graph in this memory, or no_value
  uint32_t position = no_value;  ///< the input of the functional graph that is this memory
  ValueId origin = no_value;     ///< of memory that a node made: the value that it was made as
  Tensor made;                   ///< the input, or the node's value, before any write
  bool written_with_grad = false;
};

/// A tensor of the original graph.
struct Alias {
  size_t base = 0;
  std::vector<ViewStep> chain;
  Tensor value;
  uint32_t generation = 0;
  uint32_t input = no_value;     ///< the original input that it is
  ValueId identity = no_value;   ///< equal for values that are one tensor
  ValueId restrided = no_value;  ///< the value with its sizes, once they were changed in place
};

/// Whether the graph says of what nodes give which values share memory.
bool tells_aliases(const Graph& graph);

/// What follows on the recording of a functional graph: constants are folded, what is computed
/// twice or for nothing goes.
void simplify_lowered(Graph& graph, const LowerOptions& options);

/// Lowers one graph, once.
class Functionalizer {
 public:
  Functionalizer(const Graph& graph, const LowerOptions& options)
      : graph_(graph),
        options_(options),
        knows_aliases_(tells_aliases(graph)),
        recorder_(graph.shape_env),
        aliases_(graph.values().size()),
        numbers_(graph.values().size()) {}

  Lowered run();

 private:
  void add_shared_inputs();
  void add_input(uint32_t index);
  void add_inputs();
  void add_constants();
  void lower_node(const Node& node);
  void lower_control_flow(const Node& node, const OpEntry& op, std::vector<Value> args);
  std::shared_ptr<Graph> pure_body(const Graph& body, std::span<const TensorMeta> inputs);
  void follow_facts(const Node& node, std::optional<EnableGradGuard>& mode);
  void lower_write(const Node& node, const OpEntry& op, std::vector<Value>& args);
  void lower_out(const Node& node, const OpEntry& op, const std::vector<Value>& args);
  void lower_on_copies(const Node& node, const OpEntry& op, const std::vector<Value>& args);
  void write_argument(const Node& node, const OpEntry& op, uint32_t arg, Tensor content);
  void lower_restride(const Node& node, const OpEntry& view, const std::vector<Value>& args,
                      ValueId self);
  void lower_batch_norm(const Node& node, const OpEntry& op, const std::vector<Value>& args);
  void call(const OpEntry& op, const Node& node, std::span<const Value> args, ValueId written);
  void note_result(const Node& node, const OpEntry& op, ValueId id, uint32_t index, Tensor value);
  ViewStep view_step(const Node& node, const OpEntry& op, uint32_t index);
  bool is_alias(ValueId id, ValueId argument, const Alias& viewed, const Tensor& value) const;
  void check_strided(const Alias& alias) const;
  Tensor& current(ValueId id);
  void write(ValueId id, Tensor content);
  bool is_hidden_from_grad(const Alias& alias) const;
  Tensor with_history_of(const Tensor& before, const Tensor& content);
  std::vector<Value> arguments(const Node& node);
  void renew_symbols(Value& v, std::deque<std::vector<SymInt>>& lists) const;
  SymInt renewed(SymInt value) const;
  Number renewed(Number value) const;
  void show_symbols();
  void note_symbols(NodeId node);
  void find_shared_results();
  uint32_t add_result(Tensor value, const GraphValue& seen);
  OutputRecipe view_recipe(OutputRecipe::Kind kind, uint32_t index, const Alias& alias,
                           const Tensor& memory, const Tensor& start);
  OutputRecipe output_recipe(ValueId id);
  void describe_output(OutputRecipe& recipe, ValueId id);
  std::vector<ViewStep> replayed(const Alias& alias);
  void write_inputs_back();
  void note_restrides();
  void tell_symbols(Derivative& derivative);
  void differentiate();
  std::shared_ptr<Graph> finish();

  const Graph& graph_;
  const LowerOptions& options_;
  const bool knows_aliases_;  // imported graphs tell of their inputs only
  GraphRecorder recorder_;
  std::deque<Base> bases_;
  std::vector<std::optional<Alias>> aliases_;  // by value of the original graph
  std::vector<Number> numbers_;
  std::deque<std::vector<Tensor>> lists_;          // of the node being lowered
  std::deque<std::vector<SymInt>> sizes_;          // likewise
  std::deque<std::vector<Value>> kept_arguments_;  // of views, as they were made
  std::deque<Tensor> kept_tensors_;                // likewise
  std::deque<std::vector<SymInt>> kept_sizes_;     // likewise
  std::vector<Tensor> results_;
  std::map<ValueId, uint32_t> output_of_;      // by identity: the first output that is this tensor
  std::map<size_t, uint32_t> result_of_base_;  // of bases that several outputs view
  Lowered out_;
  // Data-dependent symbols of the original graph, by the new ones.
  std::map<const Expr*, const Expr*> symbols_;
};

}  // namespace tenon
