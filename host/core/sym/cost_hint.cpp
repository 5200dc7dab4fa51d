// Expressions over the hints of marks.
#include "core/sym/cost_hint.h"

#include "core/sym/sym_eval.h"

#include <algorithm>

namespace tenon {

std::optional<SymValue> cost_hint(const ShapeEnv& env, const Expr* expr) {
  auto has_own = [&](const Expr* symbol) { return env.info(symbol).cost_hint.has_value(); };
  if (expr->kind != ExprKind::integer || std::ranges::none_of(free_symbols(expr), has_own))
    return env.hint(expr);
  auto hint_of = [&](const Expr* symbol) {
    const SymbolInfo& info = env.info(symbol);
    return info.cost_hint ? std::optional(SymValue::of_int(*info.cost_hint)) : info.hint;
  };
  auto value = evaluate(expr, hint_of);
  if (!value) return env.hint(expr);
  // What is known of the expression holds for the example, and need not for other sizes.
  Range known = env.range(expr);
  return SymValue::of_int(std::clamp(value->integer(), known.lo, known.hi));
}

std::optional<int64_t> cost_hint(const ShapeEnv& env, SymInt value) {
  if (!value.is_symbolic()) return value.word();
  auto found = cost_hint(env, value.expr());
  return found ? std::optional<int64_t>(found->integer()) : std::nullopt;
}

}  // namespace tenon
