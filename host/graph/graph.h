// Graph: a program as data. Nodes in execution order, values with dense ids, symbols with their
// facts.
//
// The model is that of the plugin ABI: a node is a call of one op with its arguments in schema
// order, defaults filled in; its results are consecutive values. An op that returns a list has one
// result per part. Arguments are `Value`s whose tags ref and refs name values of this graph and
// whose lists lie in the graph's arena. Symbolic integers in arguments are expressions over the
// graph's symbols, which are bound from inputs (or, data-dependent ones, from results of nodes) at
// each call.
//
// Threads: building is for one thread; a finished graph is read freely.
#pragma once

#include "core/arguments.h"
#include "core/dispatch.h"
#include "core/sym/sym_int.h"

#include <deque>
#include <map>
#include <memory>
#include <span>
#include <string>

namespace tenon {

using NodeId = uint32_t;

enum class ValueKind : uint8_t {  // numbers of TN_VAL_*
  tensor = 0,
  sym_int = 2,
  sym_float = 3,
  sym_bool = 4,
  none = 5,
};
enum class ValueSource : uint8_t { input, constant, node };

/// TN_V_* of tenon/plugin.h.
struct ValueFlags {
  bool parameter : 1 = false, buffer : 1 = false, static_address : 1 = false, mutated : 1 = false;
  bool requires_grad : 1 = false, saved : 1 = false, tangent : 1 = false, user_output : 1 = false;
};

struct GraphValue {
  ValueKind kind = ValueKind::tensor;
  ValueSource source = ValueSource::node;
  ValueFlags flags;
  uint32_t source_index = 0;  ///< index among the inputs, the constants or the nodes
  uint32_t result_index = 0;
  uint32_t alias_group = 0;  ///< values with equal non-zero groups may share storage
  std::string name;          ///< empty: the printer makes one up
  TensorMeta meta;           ///< tensors
  SymInt offset;             ///< tensors: storage offset
  Number scalar;             ///< symbolic scalars: the expression
};

/// Where a node came from, for messages and `explain`.
struct SourceLocation {
  std::string file, function;
  int32_t line = 0;
};

struct Node {
  OpId op{};
  std::span<const Value> args;
  ValueId first_result = 0;
  uint32_t n_results = 0;
  std::string name;         ///< empty: the printer makes one up
  std::string module_path;  ///< "layers.0.attn"
  SourceLocation where;
  int32_t seq_nr = -1;
  bool is_backward = false;  ///< of joint graphs: recorded while gradients were computed
  std::map<std::string, std::string> facts;  ///< rare ones, by key
};

/// The arguments that a node writes, as bits: those of its op's schema, and the running statistics that
/// a normalisation updates in training.
uint64_t written_args(const Node& node);

/// How a symbol gets its value at a call: dimension `dim` of a value's sizes, or (dim < 0) the
/// value of a scalar. `stride` reads the strides instead.
struct SymbolBinding {
  const Expr* symbol;
  ValueId value;
  int32_t dim;
  bool stride = false;
};

class Graph {
 public:
  Graph() = default;
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  ValueId add_input(GraphValue value);
  ValueId add_constant(Tensor tensor, std::string name);
  /// Appends a call. Lists and strings of `args` are copied into the arena. `results` become the
  /// values first_result...; returns the node's id.
  NodeId add_node(OpId op, std::span<const Value> args, std::vector<GraphValue> results);
  void set_outputs(std::vector<ValueId> outputs) { outputs_ = std::move(outputs); }

  std::span<const Node> nodes() const { return nodes_; }
  std::span<const GraphValue> values() const { return values_; }
  Node& node(NodeId id) { return nodes_[id]; }
  const Node& node(NodeId id) const { return nodes_[id]; }
  GraphValue& value(ValueId id) { return values_[id]; }
  const GraphValue& value(ValueId id) const { return values_[id]; }
  std::span<const ValueId> inputs() const { return inputs_; }
  std::span<const ValueId> outputs() const { return outputs_; }  ///< no_value: an undefined output
  std::span<const ValueId> constants() const { return constant_values_; }
  const Tensor& constant(ValueId id) const { return constants_[values_[id].source_index]; }
  void replace_constant(ValueId id, Tensor tensor) {
    constants_[values_[id].source_index] = std::move(tensor);
  }

  /// Calls f(ValueId) for every value that the node reads, holes left out.
  template <class F>
  static void for_each_use(const Node& node, F f) {
    for (const Value& a : node.args) for_each_value(a, f);
  }
  /// Ids of the nodes that read each value, by value.
  std::vector<std::vector<NodeId>> users() const;

  /// Removes the nodes that `dead` marks and renumbers. Their results must be unused.
  void erase_nodes(const std::vector<bool>& dead);
  /// Gives the node other arguments, copied into the arena.
  void set_args(NodeId id, std::span<const Value> args);

  /// Copies lists and strings of `v` into the arena of this graph.
  Value intern(const Value& v);
  Value intern_refs(std::span<const ValueId> ids);
  std::span<const Value> intern_args(std::span<const Value> args);

  std::shared_ptr<ShapeEnv> shape_env;  ///< facts about the symbols; null when all is static
  std::vector<SymbolBinding> symbols;   ///< free symbols, in the order of tn_call.syms
  std::vector<std::shared_ptr<Graph>> subgraphs;  ///< kept alive for arguments with tag graph
  std::string name;                               ///< "model", or the callable's name

 private:
  void* allocate(size_t bytes, size_t align);

  std::vector<Node> nodes_;
  std::vector<GraphValue> values_;
  std::vector<ValueId> inputs_, outputs_, constant_values_;
  std::vector<Tensor> constants_;
  std::deque<std::vector<uint64_t>> blocks_;
  size_t used_ = 0;  // words of the last block
};

/// "tensor f32[2, 3]", for messages.
std::string to_text(const GraphValue& value);
/// An independent copy; constants share their tensors.
std::shared_ptr<Graph> clone(const Graph& graph);
/// The name of a value as the printer shows it.
std::string display_name(const Graph& graph, ValueId id);

}  // namespace tenon
