// What ops do to the history of tensors, by their rows.
#pragma once

#include "ops/custom_op.h"
#include "ops/op.h"
#include "ops/op_ids.h"
#include "ops/op_table.h"

#include <span>

namespace tenon {

/// Whether the op makes its argument a leaf that needs no gradient: detach_, which changes none of its
/// elements. It counts as no write.
inline bool forgets_history(const OpEntry& op) { return op.id == OpId::aten_detach__default; }
/// What it does to its argument, and to what that stands for.
void forget_history(const Tensor& self);

/// Whether what an op gives needs a gradient; `needs` says it of an argument. One that the op only
/// compares with another does not count.
template <class F>
bool results_need_gradient(const OpEntry& op, std::span<const Value> args, const F& needs) {
  if (op.def->vjp.kind == Vjp::Kind::none) return false;
  int compared = op.def->tags & OpTags::compares_target ? op.schema.find_arg("target") : -1;
  for (size_t i = 0; i < args.size(); ++i)
    if (static_cast<int>(i) != compared && needs(args[i])) return true;
  return false;
}

/// Whether what a call writes into this argument gets a history. The derivative that a library gives
/// for its op is one of the results: statistics that it writes besides stay without.
inline bool writes_history(const OpEntry& op, size_t arg) {
  if (!(op.mutated_args >> arg & 1)) return false;
  const CustomOp* added = custom_op_of(op);
  return !added || !added->vjp || op.returned_arg == static_cast<int>(arg);
}

}  // namespace tenon
