// What the code of a segment relies on.
#include "runtime/segments.h"

#include "config/flags.h"
#include "core/sym/shape_env.h"
#include "core/sym/sym_expr.h"

#include <algorithm>

namespace tenon {

std::optional<SymProgram> segment_conditions(const Graph& graph, const Artifact& artifact) {
  const ShapeEnv& env = *graph.shape_env;
  std::vector<const Expr*> known, computed, conditions = artifact.guards;
  for (const SymbolBinding& b : graph.symbols)
    (env.info(b.symbol).is_known_before_run() ? known : computed).push_back(b.symbol);
  auto is_in = [](const std::vector<const Expr*>& list) {
    return [&list](const Expr* s) { return std::ranges::find(list, s) != list.end(); };
  };
  for (const Expr* condition : env.assumptions()) {
    std::vector<const Expr*> used = free_symbols(condition);
    if (std::ranges::any_of(used, is_in(computed))) {
      if (config::flags().dynamo.do_not_emit_runtime_asserts) return std::nullopt;
      continue;
    }
    if (std::ranges::none_of(used, is_in(known))) continue;
    if (!std::ranges::all_of(used, is_in(known))) return std::nullopt;
    conditions.push_back(condition);
  }
  return SymProgram::compile(known, conditions);
}

}  // namespace tenon
