// Whether what an op gives needs a gradient, by its row.
#pragma once

#include "ops/op.h"
#include "ops/op_table.h"

#include <span>

namespace tenon {

/// `needs` says it of an argument. One that the op only compares with another does not count.
template <class F>
bool results_need_gradient(const OpEntry& op, std::span<const Value> args, const F& needs) {
  if (op.def->vjp.kind == Vjp::Kind::none) return false;
  int compared = op.def->tags & OpTags::compares_target ? op.schema.find_arg("target") : -1;
  for (size_t i = 0; i < args.size(); ++i)
    if (static_cast<int>(i) != compared && needs(args[i])) return true;
  return false;
}

}  // namespace tenon
