// Numbers that depend on data as symbols of the graph: asserting, and learning their values where
// the graph breaks.
//
// Model: under dynamo.capture_scalar_outputs, capture_dynamic_output_shape_ops or fullgraph an op
// whose result only run time knows is recorded, and what is unknown of it is an unbacked symbol.
// What the recording takes for granted about such a symbol becomes an assertion node before the
// first node that may rely on it. When the body asks for its value (a branch, a plain number) the
// segment ends there; the symbols of the segment are among its results, and from then on an
// ordinary symbol with that value as its example stands for each of them, which is an input of the
// segments that follow.
#pragma once

#include "capture/trace_policy.h"
#include "core/sym/sym_int.h"
#include "graph/assert_nodes.h"
#include "graph/record.h"

#include <tenon/detail/leaves.h>

#include <vector>

namespace tenon {

struct SymbolInfo;

class DataSymbols {
 public:
  DataSymbols(const detail::Leaves& leaves, GraphRecorder& recorder, const TracePolicy& policy);

  bool captures_scalars() const { return captures_scalars_; }
  /// Whether an op whose result depends on data is recorded, with new symbols.
  bool captures(const OpEntry& op) const;

  /// The environment follows the rules of a recording from here on; asserts so far do not count.
  void take_rules();
  /// What was taken for granted about data so far becomes nodes.
  void emit_asserts() { asserts_.emit(); }
  /// Whether an op asserts what is known before the run, as check() does: then that is a guard now, and
  /// the op no part of the recording. What the environment keeps for the run becomes a node.
  bool takes_as_guard(const CallArgs& call);

  /// What the nodes of the segment bind, as tensors among its results.
  std::vector<const Expr*> show(std::vector<Tensor>& results) const;
  /// The values that such results have given.
  void learn(std::span<const Expr* const> symbols, std::span<const Tensor> values);
  /// The arguments' values for symbols in `expr` that have no example.
  void learn_from_arguments(const Expr* expr);
  /// The sizes of a fake of an earlier segment, over the symbols that stand for them by now.
  void renew_sizes(const Tensor& fake) const;
  /// The recording is over: numbers that the body keeps beyond it have the values of this call.
  void keep_values() const;
  /// A number as plain as kernels want it, where its value is known.
  Number plain(Number n) const;

  /// Adds the numbers that nodes compute to the results of the graph: by number its place there, or
  /// -1.
  std::vector<int32_t> show_numbers(std::span<const Number> numbers,
                                    std::vector<Tensor>& results) const;
  /// Binds the symbols that are known before the run to inputs of a finished graph, new ones where
  /// no size shows them: all, or those that the graph mentions, so that graphs with equal nodes are
  /// equal.
  enum class Bound : uint8_t { all, mentioned };
  void bind(Graph& graph, Bound which);
  /// Their values in this call, in the order of graph.symbols.
  std::vector<int64_t> words(const Graph& graph) const;

 private:
  int64_t word_of(const SymbolInfo& symbol) const;

  const detail::Leaves& leaves_;
  GraphRecorder& recorder_;
  ShapeEnv& env_;
  AssertNodes asserts_;
  bool captures_scalars_, captures_shapes_;
};

}  // namespace tenon
