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

/// Whether this formula of the row tells true from false only.
bool gives_masks_only(const OpEntry& op, int entry);
/// Whether the op writes what has no gradient over its first argument, as gt_: the gradient of what was
/// there ends.
bool ends_gradient(const OpEntry& op);

/// Whether an op of the host takes no more of its other arguments than sizes and types: what it gives is
/// `self`, or a view of it.
inline bool gives_only_self(const OpEntry& op) {
  if (op.id == OpId::aten_type_as_default) return true;
  const Schema& schema = op.schema;
  if (schema.args.empty() || schema.returns.size() != 1 || custom_op_of(op)) return false;
  const AliasInfo& self = schema.args[0].alias;
  return !self.before.empty() && !self.mutated && self.before == schema.returns[0].alias.before;
}

/// Whether what an op gives needs a gradient; `needs` says it of an argument. One that the op only
/// compares with another, or whose sizes or type alone it takes, does not count. What ends a gradient
/// leaves a tensor that needs one as it is: a zero goes to what was there.
template <class F>
bool results_need_gradient(const OpEntry& op, std::span<const Value> args, const F& needs) {
  if (ends_gradient(op)) return needs(args[0]);
  if (op.def->vjp.kind == Vjp::Kind::none) return false;
  if (gives_only_self(op)) return needs(args[0]);
  int compared = op.def->tags & OpTags::compares_target ? op.schema.find_arg("target") : -1;
  for (size_t i = 0; i < args.size(); ++i)
    if (static_cast<int>(i) != compared && needs(args[i])) return true;
  return false;
}

/// Of an argument, what result `r` of `n` comes from: where an op of the host takes lists and gives one,
/// each element comes from those at its place.
inline Value argument_of_result(const OpEntry& op, const Value& argument, uint32_t r, uint32_t n) {
  const Schema& schema = op.schema;
  bool is_on_each = schema.returns_list() && !schema.args.empty() && schema.args[0].type.is_list &&
                    argument.count == n && !custom_op_of(op);
  if (is_on_each && argument.tag == Tag::tensors) return Value::of(argument.as<Tensor>()[r]);
  if (!is_on_each || argument.tag != Tag::refs) return argument;
  ValueId element = argument.as<ValueId>()[r];
  return element == no_value ? Value{} : Value::ref(element);
}

/// Whether a result can have a gradient: indices, masks and statistics beside the result have none, as in
/// PyTorch.
bool has_gradient(const OpEntry& op, uint32_t result);

/// Whether result `r` of `n` needs a gradient.
template <class F>
bool result_needs_gradient(const OpEntry& op, std::span<const Value> args, uint32_t r, uint32_t n,
                           const F& needs) {
  return has_gradient(op, r) && results_need_gradient(op, args, [&](const Value& a) {
           return needs(argument_of_result(op, a, r, n));
         });
}

/// Whether what a call writes into this argument gets a history. A derivative, of a row or of a
/// library's op, is one of the results: statistics that the op writes besides stay without.
inline bool writes_history(const OpEntry& op, size_t arg) {
  if (!(op.mutated_args >> arg & 1)) return false;
  const CustomOp* added = custom_op_of(op);
  const bool is_of_results = op.def->vjp.kind == Vjp::Kind::rules || (added && added->vjp);
  return !is_of_results || op.returned_arg == static_cast<int>(arg);
}

}  // namespace tenon
