// Which symbols of a graph its nodes and values mention.
#pragma once

#include "core/sym/sym_eval.h"
#include "graph/graph.h"

#include <set>
#include <unordered_map>

namespace tenon {

/// The expression of a symbolic number.
inline const Expr* expression_of(Number n) {
  return n.is_integer()    ? as_expr(n.sym_int())
         : n.is_floating() ? as_expr(n.sym_float())
                           : as_expr(n.sym_bool());
}

/// The number that an expression is; constants give plain numbers.
inline Number number_over(const Expr* expr) {
  switch (expr->kind) {
    case ExprKind::integer:
      return as_sym_int(expr);
    case ExprKind::real:
      return as_sym_float(expr);
    default:
      return as_sym_bool(expr);
  }
}

/// The symbols in values and arguments of a graph, with those of its bodies.
std::set<const Expr*> mentioned_symbols(const Graph& graph);

/// A number over symbols as a tensor of one element on the CPU, which an op makes.
Tensor tensor_of_number(Number n);
/// The value in such a tensor.
SymValue value_in(const Tensor& t, ExprKind kind);

/// Answers by position in graph.symbols; symbols without a binding are left out. Expressions are
/// looked through once. Threads: one at a time.
class SymbolUse {
 public:
  explicit SymbolUse(const Graph& graph);

  /// Calls f(position) for each symbol in the node's arguments and results; some more than once.
  template <class F>
  void each_of(const Node& node, F f);
  /// The same for a value's sizes, strides, offset or number.
  template <class F>
  void each_of(const GraphValue& value, F f) {
    if (positions_.empty()) return;
    for (SymInt size : value.meta.sizes) each_of(size, f);
    for (SymInt stride : value.meta.strides) each_of(stride, f);
    each_of(value.offset, f);
    each_of(value.scalar, f);
  }
  template <class F>
  void each_of(Number n, F f) {
    if (!n.is_symbolic() || positions_.empty()) return;
    for (uint32_t position : of(expression_of(n))) f(position);
  }

 private:
  template <class F>
  void each_in_arguments(const Node& node, F f);
  const std::vector<uint32_t>& of(const Expr* expr);

  const Graph& graph_;
  std::unordered_map<const Expr*, uint32_t> positions_;
  std::unordered_map<const Expr*, std::vector<uint32_t>> known_;
};

template <class F>
void SymbolUse::each_of(const Node& node, F f) {
  if (positions_.empty()) return;
  each_in_arguments(node, f);
  for (uint32_t r = 0; r < node.n_results; ++r) each_of(graph_.value(node.first_result + r), f);
}

template <class F>
void SymbolUse::each_in_arguments(const Node& node, F f) {
  for (const Value& a : node.args) {
    for_each_symbolic(a, [&](Number n) { each_of(n, f); });
    if (a.tag != Tag::graph) continue;
    // Bodies may mention the symbols of the graph around them. Results of their nodes are among
    // their own values.
    for (const GraphValue& value : a.as<Graph>()->values()) each_of(value, f);
    for (const Node& inner : a.as<Graph>()->nodes()) each_in_arguments(inner, f);
  }
}

}  // namespace tenon
