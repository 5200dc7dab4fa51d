// Graphs inside of graphs: op by op.
#include "graph/inline.h"

#include "core/arguments.h"
#include "core/error.h"
#include "core/sym/sym_simplify.h"
#include "graph/record.h"
#include "graph/symbol_use.h"
#include "ops/op_table.h"

#include <tenon/plugin.h>

#include <algorithm>

namespace tenon {

bool can_record(const Graph& graph) {
  auto is_known = [&](const SymbolBinding& b) {
    return graph.value(b.value).source == ValueSource::input && b.symbol->kind == ExprKind::integer;
  };
  auto is_plain = [](const Node& n) {
    return !(entry_of(n.op).tags & TN_TAG_RANDOM) && !n.facts.contains("grad");
  };
  return graph.subgraphs.empty() && std::ranges::all_of(graph.symbols, is_known) &&
         std::ranges::all_of(graph.nodes(), is_plain);
}

std::vector<Value> call_node(const Node& node, FunctionRef<Value(ValueId)> argument,
                             FunctionRef<Number(Number)> here) {
  const OpEntry& op = entry_of(node.op);
  std::vector<Value> args(node.args.begin(), node.args.end());
  ArgumentLists lists;
  map_arguments(
      args, lists, [&](ValueId id) { return argument(id); }, [&](Number n) { return here(n); });
  bool is_list = op.schema.returns_list();
  std::vector<Value> results(is_list ? 1 : node.n_results);
  dispatch(op, args.data(), static_cast<uint32_t>(args.size()), results.data(),
           static_cast<uint32_t>(results.size()));
  if (!is_list) return results;
  std::vector<Tensor> parts = take<std::vector<Tensor>>(results[0]);
  require(parts.size() == node.n_results, "{}: the graph has {} parts, the op gave {}", op.name,
          node.n_results, parts.size());
  results.clear();
  for (const Tensor& part : parts) results.push_back(Value::own(part));
  return results;
}

namespace {

class GraphReplay {
 public:
  GraphReplay(const Graph& graph, std::span<const SymInt> symbols)
      : graph_(graph), symbols_(symbols), values_(graph.values().size()) {}

  std::vector<Tensor> run(std::span<const Tensor> inputs) {
    for (size_t i = 0; i < inputs.size(); ++i) values_[graph_.inputs()[i]] = inputs[i];
    for (ValueId c : graph_.constants())
      values_[c] = recorder_of_thread().add_constant(graph_.constant(c), "");
    for (const Node& node : graph_.nodes()) call(node);
    std::vector<Tensor> outputs;
    for (ValueId v : graph_.outputs()) outputs.push_back(v == no_value ? Tensor() : values_[v]);
    return outputs;
  }

 private:
  Number here(Number n) const {
    if (!n.is_symbolic()) return n;
    return number_over(substitute(expression_of(n), [this](const Expr* symbol) -> const Expr* {
      for (size_t i = 0; i < symbols_.size(); ++i)
        if (graph_.symbols[i].symbol == symbol) return as_expr(symbols_[i]);
      return nullptr;
    }));
  }

  Value argument(ValueId id) const {
    const GraphValue& v = graph_.value(id);
    if (v.kind == ValueKind::tensor) return Value::of(values_[id]);
    return v.kind == ValueKind::none ? Value{} : Value::of(here(v.scalar));
  }

  void call(const Node& node) {
    std::vector<Value> results = call_node(
        node, [this](ValueId id) { return argument(id); }, [this](Number n) { return here(n); });
    for (uint32_t r = 0; r < node.n_results; ++r)
      if (!results[r].is_number()) values_[node.first_result + r] = take<Tensor>(results[r]);
  }

  const Graph& graph_;
  std::span<const SymInt> symbols_;
  std::vector<Tensor> values_;
};

}  // namespace

std::vector<Tensor> record_graph(const Graph& graph, std::span<const Tensor> inputs,
                                 std::span<const SymInt> symbols) {
  return GraphReplay(graph, symbols).run(inputs);
}

}  // namespace tenon
