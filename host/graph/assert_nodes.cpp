// Assertions of a recording as nodes.
#include "graph/assert_nodes.h"

#include "config/flags.h"
#include "core/sym/shape_env.h"
#include "core/sym/sym_int.h"
#include "graph/symbol_use.h"

#include <tenon/ops/copy.h>

#include <algorithm>
#include <utility>

namespace tenon {

void AssertNodes::skip_new() {
  if (const auto& env = recorder_.shape_env()) n_seen_ = env->runtime_asserts().size();
}

bool AssertNodes::is_bound(const Expr* condition) const {
  std::vector<const Expr*> symbols = free_symbols(condition);
  return std::ranges::all_of(symbols, [&](const Expr* symbol) {
    if (recorder_.shape_env()->info(symbol).is_known_before_run()) return true;
    const auto& bindings = recorder_.graph().symbols;
    return std::ranges::any_of(bindings, [&](auto& b) { return b.symbol == symbol; });
  });
}

void AssertNodes::emit() {
  if (!recorder_.shape_env()) return;
  const ShapeEnv& env = *recorder_.shape_env();
  for (; n_seen_ < env.runtime_asserts().size(); ++n_seen_) waiting_.push_back(n_seen_);
  if (waiting_.empty()) return;
  for (size_t index : std::exchange(waiting_, {})) {
    RuntimeAssert check = env.runtime_asserts()[index];
    const Expr* condition = env.renewed(check.condition);
    if (condition->is_constant() || config::flags().dynamo.do_not_emit_runtime_asserts) continue;
    if (!is_bound(condition)) {
      waiting_.push_back(index);
      continue;
    }
    std::string text = env.text(check.condition);
    std::string named = env.source_text(check.condition);
    if (named != text) text += " (" + named + ")";
    if (!check.message.empty()) text += ": " + check.message;
    _assert_scalar(SymBool::from_expr(condition), text.append(remark_));
  }
}

}  // namespace tenon
