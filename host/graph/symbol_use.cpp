// Symbols of expressions, remembered.
#include "graph/symbol_use.h"

#include "core/dispatch.h"
#include "core/tensor/tensor_impl.h"

#include <tenon/ops/create.h>

namespace tenon {

SymbolUse::SymbolUse(const Graph& graph) : graph_(graph) {
  for (uint32_t i = 0; i < graph.symbols.size(); ++i)
    positions_.emplace(graph.symbols[i].symbol, i);
}

const std::vector<uint32_t>& SymbolUse::of(const Expr* expr) {
  auto [at, added] = known_.try_emplace(expr);
  if (!added) return at->second;
  for (const Expr* symbol : free_symbols(expr))
    if (auto found = positions_.find(symbol); found != positions_.end())
      at->second.push_back(found->second);
  return at->second;
}

static void add_mentioned(const Graph& graph, std::set<const Expr*>& symbols) {
  auto add = [&](Number n) {
    if (!n.is_symbolic()) return;
    for (const Expr* symbol : free_symbols(expression_of(n))) symbols.insert(symbol);
  };
  for (const GraphValue& value : graph.values()) {
    for (SymInt size : value.meta.sizes) add(size);
    for (SymInt stride : value.meta.strides) add(stride);
    add(value.offset);
    add(value.scalar);
  }
  for (const Node& node : graph.nodes())
    for (const Value& arg : node.args) for_each_symbolic(arg, add);
  for (const auto& body : graph.subgraphs) add_mentioned(*body, symbols);
}

std::set<const Expr*> mentioned_symbols(const Graph& graph) {
  std::set<const Expr*> symbols;
  add_mentioned(graph, symbols);
  return symbols;
}

Tensor tensor_of_number(Number n) {
  ModeScope on_the_cpu(0, bit(Key::defaults));
  Dtype dtype = n.is_integer() ? Dtype::i64 : n.is_floating() ? Dtype::f64 : Dtype::bool_;
  return scalar_tensor(n, dtype);
}

SymValue value_in(const Tensor& t, ExprKind kind) {
  const void* element = impl_of(t)->data;
  if (kind == ExprKind::real) return SymValue::of_real(*static_cast<const double*>(element));
  if (kind == ExprKind::integer) return {kind, *static_cast<const int64_t*>(element)};
  return {kind, *static_cast<const bool*>(element)};
}

}  // namespace tenon
