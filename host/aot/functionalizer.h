// The worker behind functionalisation, which records a graph again node by node; the method is in
// functionalize.cpp, control flow in functionalize_bodies.cpp, writes in functionalize_writes.cpp.
#pragma once

#include "aot/functional_values.h"
#include "graph/assert_nodes.h"
#include "graph/record.h"

#include <tenon/autograd.h>

#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace tenon {

/// What follows on the recording of a functional graph: constants are folded, what is computed
/// twice or for nothing goes.
void simplify_lowered(Graph& graph, const LowerOptions& options);

/// Whether the node writes running statistics: a vector has no channels that could have some.
bool updates_statistics(const Graph& graph, const Node& node);

/// Lowers one graph, once.
class Functionalizer {
 public:
  /// `symbols`: of a body, those that stand for the symbols of the graph around it.
  Functionalizer(const Graph& graph, const LowerOptions& options, RenewedSymbols symbols = {})
      : graph_(graph),
        options_(options),
        recorder_(graph.shape_env),
        values_(graph, options.training, std::move(symbols)) {}

  Lowered run();
  /// The graph is that of `lowered`, whose nodes may write; a pure one takes its place, with the same
  /// inputs and outputs.
  void run_again(Lowered& lowered);

 private:
  void open_and_assert();
  void add_shared_inputs();
  void add_input(uint32_t index);
  void add_inputs();
  void add_constants();
  void lower_node(const Node& node);
  void lower_again(const Node& node);
  void write_inputs_again(const Lowered& lowered);
  void follow_facts(const Node& node, std::optional<EnableGradGuard>& mode);
  void call(const OpEntry& op, const Node& node, std::span<const Value> args, ValueId written);
  void copy_node(const OpEntry& op, const Node& node, std::span<const Value> args);
  std::shared_ptr<Graph> finish();

  void lower_control_flow(const Node& node, const OpEntry& op, std::vector<Value> args);
  std::shared_ptr<Graph> pure_body(const Graph& body, std::span<const TensorMeta> inputs);
  std::vector<TensorMeta> inputs_of_body(const Graph& body, std::vector<TensorMeta> given,
                                         std::span<const TensorMeta> before) const;

  void lower_write(const Node& node, const OpEntry& op, std::vector<Value>& args);
  void lower_out(const Node& node, const OpEntry& op, const std::vector<Value>& args);
  void lower_on_copies(const Node& node, const OpEntry& op, const std::vector<Value>& args);
  void write_argument(const Node& node, const OpEntry& op, uint32_t arg, Tensor content);
  ValueId result_that_is(const Node& node, const OpEntry& op, uint32_t arg) const;
  void lower_restride(const Node& node, const OpEntry& view, const std::vector<Value>& args,
                      ValueId self);
  void run_normalization(const Node& node, const OpEntry& op, std::span<const Value> args,
                         Value* results);
  void lower_normalization(const Node& node, const OpEntry& op, const std::vector<Value>& args);

  const Graph& graph_;
  const LowerOptions& options_;
  GraphRecorder recorder_;
  AssertNodes asserts_{recorder_, ", which the graph takes for granted"};
  bool is_again_ = false;
  bool in_assertion_ = false;  // the node that is lowered asserts something itself
  FunctionalValues values_;
  std::vector<Tensor> results_;
  Lowered out_;
};

}  // namespace tenon
