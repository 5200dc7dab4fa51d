// Calls of _assert_scalar in bodies.
#pragma once

#include "core/dispatch.h"
#include "core/sym/shape_env.h"
#include "graph/symbol_use.h"
#include "ops/op_table.h"

#include <algorithm>

namespace tenon {

/// Whether it is what check() makes of its condition, a guard on the arguments, and no operation of
/// the recording. What the environment keeps for the run becomes a node.
inline bool asserts_arguments(const CallArgs& call, const ShapeEnv& env) {
  if (call.op->id != OpId::aten__assert_scalar_default) return false;
  if (!call.args[0].number().is_symbolic()) return true;
  const Expr* condition = expression_of(call.args[0].number());
  auto is_it = [&](const RuntimeAssert& kept) { return env.renewed(kept.condition) == condition; };
  auto is_known = [&](const Expr* symbol) { return env.info(symbol).is_known_before_run(); };
  return std::ranges::none_of(env.runtime_asserts(), is_it) &&
         std::ranges::all_of(free_symbols(condition), is_known);
}

}  // namespace tenon
