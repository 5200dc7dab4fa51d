// What the importer of .pt2 programs is made of: names, arguments and nodes of one program.
#pragma once

#include "formats/pt2/pt2_import.h"
#include "graph/control_flow.h"
#include "ops/op_table.h"
#include "ops/promotion.h"

#include <deque>
#include <map>
#include <optional>

namespace tenon::formats {

/// A name of the program: a value of the graph, and for numbers what it is over the symbols.
struct NamedValue {
  ValueId id = no_value;
  ValueKind kind = ValueKind::tensor;
  Number number;
};

/// Names of one graph of the program; sub-graphs have scopes of their own.
using Pt2Scope = std::unordered_map<std::string, NamedValue>;

/// The arguments of nodes, by schema. Pointers in them hold until the next node.
class Pt2Arguments {
 public:
  Pt2Arguments(Graph& graph, Device device) : graph_(graph), device_(device) {}
  /// All arguments of `op`, which may differ from the node's op: see choose_op. `complex` is the
  /// dtype of its result where that is a complex one.
  std::vector<Value> bind(const OpEntry& op, const Pt2Node& node, const Pt2Scope& scope,
                          std::optional<Dtype> complex);

 private:
  Value convert(const SchemaArg& arg, const Pt2Argument& value, const Pt2Scope& scope);
  Value tensor(const SchemaArg& arg, const Pt2Argument& value, const Pt2Scope& scope);
  Value tensor_of(const NamedValue& symbol, const Pt2Scope& scope);
  Promotion operands(const Pt2Scope& scope) const;
  Value number(const SchemaArg& arg, const Pt2Argument& value, const Pt2Scope& scope) const;
  Value list(const SchemaArg& arg, const Pt2Argument& value, const Pt2Scope& scope);
  Value refs(const SchemaArg& arg, const Pt2Argument& value, const Pt2Scope& scope);
  Value integers(const SchemaArg& arg, const Pt2Argument& value, const Pt2Scope& scope);

  Graph& graph_;
  Device device_;
  const Pt2Node* node_ = nullptr;  ///< whose arguments they are
  Dtype complex_ = Dtype::c64;     ///< of complex constants
  bool makes_complex_ = false;     ///< the result is complex, and no operand is
  std::deque<std::vector<ValueId>> refs_;
  std::deque<std::vector<SymInt>> ints_;
  std::deque<std::vector<double>> floats_;
  std::deque<std::vector<uint8_t>> bools_;
  std::deque<std::vector<std::string_view>> strings_;
};

/// The op that a node calls, null when the table has none. A number in the place of a tensor calls
/// the overload for numbers where there is one.
const OpEntry* choose_op(const Pt2Node& node);

/// The op that a node with a complex constant calls; null where it has none.
const OpEntry* form_for_complex(const Pt2Node& node);
/// Nodes that do the same one after the other, where a complex constant stands in the place of a
/// number and the op has no form for tensors; none: the node is fine.
std::vector<Pt2Node> without_complex_numbers(const Pt2Graph& source, const Pt2Node& node);
/// A complex constant as a tensor without dimensions.
Tensor complex_number_tensor(const Pt2Argument& value, Dtype dtype);

/// Translates the nodes of a graph, and of the sub-graphs that are written in place.
class Pt2Nodes {
 public:
  Pt2Nodes(Graph& graph, Pt2SymbolTable& symbols, Device device)
      : graph_(graph), symbols_(symbols), device_(device), arguments_(graph, device) {}
  void add_all(const Pt2Graph& source, Pt2Scope& scope);
  TensorMeta meta(const Pt2TensorMeta& source, SymInt& offset);
  GraphValue tensor_value(const Pt2Graph& source, const std::string& name);
  Number number(const Pt2Sym& sym, Pt2SymbolType type);
  /// Symbols that an input or a node before gives a value.
  void mark_bound(const Expr* symbol) { bound_.push_back(symbol); }

 private:
  void add(const Pt2Graph& source, const Pt2Node& node, Pt2Scope& scope);
  void add_inlined(const Pt2Node& node, Pt2Scope& scope);
  void add_control_flow(const Pt2Graph& source, const Pt2Node& node, const OpEntry& op,
                        Pt2Scope& scope);
  std::shared_ptr<Graph> body(const Pt2Graph& source, const std::string& name);
  Value operands(const Pt2Node& node, const Pt2Argument& list, const Pt2Scope& scope);
  Value predicate(const Pt2Node& node, const Pt2Argument& given, const Pt2Scope& scope);
  std::vector<GraphValue> control_results(const Pt2Graph& source, const Pt2Node& node,
                                          const ControlCall& call,
                                          std::vector<std::string>& result_names);
  void append(const Pt2Node& node, const OpEntry& op, std::span<const Value> args,
              std::vector<GraphValue> values, const std::vector<std::string>& names,
              Pt2Scope& scope);
  void add_parts(const Pt2Graph& source, const Pt2Node& node, const OpEntry& op,
                 std::span<const Value> args, Pt2Scope& scope);
  void add_part(const Graph& inner, const Node& part, const Pt2Node& node,
                std::vector<ValueId>& outer, Pt2Scope& scope);
  std::vector<GraphValue> results(const Pt2Graph& source, const Pt2Node& node, const OpEntry& op,
                                  std::vector<std::string>& names);
  void result(const Pt2Graph& source, const Pt2Argument& output, std::vector<GraphValue>& values,
              std::vector<std::string>& names);
  SymInt size(const Pt2Sym& sym);
  void bind_symbols(ValueId id);
  void forget_open_offset(GraphValue& value) const;
  void bind(const Expr* expr, ValueId id, int32_t dim, bool stride = false);
  bool is_bound(const Expr* symbol) const;

  Graph& graph_;
  Pt2SymbolTable& symbols_;
  Device device_;
  Pt2Arguments arguments_;
  std::vector<const Expr*> bound_;
  void cast_arguments(const OpEntry& op, std::vector<Value>& args);
  ValueId cast(ValueId id, Dtype to);
  void enter_region(const Pt2Node& node);
  DeviceType exported_type() const;

  std::string exported_on_;        ///< the type of device that the archive's tensors were on
  std::string grad_mode_;          ///< of the region being written in place: "", "on", "off"
  std::optional<Dtype> autocast_;  ///< of that region
  ArgumentLists cast_lists_;
};

/// The op that a node with sub-graphs calls, null for other nodes.
const OpEntry* control_flow_op(const Pt2Node& node);

/// The sub-graph that a wrapping higher-order op contains, and where its operands begin; null for
/// other ops.
const Pt2Graph* inlined_graph(const Pt2Node& node, size_t& first_operand);

/// The weights of a program as tensors, made once for each record.
class Pt2Weights {
 public:
  explicit Pt2Weights(const ImportOptions& options) : options_(options) {}
  Tensor tensor(const Pt2Weight& weight, bool is_written);

 private:
  Tensor base(const Pt2Weight& weight, bool is_written);

  const ImportOptions& options_;
  std::map<std::pair<std::string, Dtype>, Tensor> bases_;
};

/// Graph inputs whose memory the graph may write, directly or through views, by input.
std::vector<bool> written_inputs(const Graph& graph);

}  // namespace tenon::formats
