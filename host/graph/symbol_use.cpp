// Symbols of expressions, remembered.
#include "graph/symbol_use.h"

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

}  // namespace tenon
