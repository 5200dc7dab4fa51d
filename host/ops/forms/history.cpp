// What ops do to the history of tensors, beyond what a row says at once.
#include "ops/forms/history.h"

#include "core/tensor/stand_in.h"
#include "ops/pointwise.h"

#include <algorithm>
#include <ranges>
#include <string_view>

namespace tenon {

// The memory stays where it is. A view is one no more that follows its base, as what detach() gives.
void forget_history(const Tensor& self) {
  impl_of(self)->grad.reset();
  impl_of(self)->base = {};
  mark_requires_grad(self, false);
  if (const Tensor* object = stands_for(self)) forget_history(*object);
}

bool gives_masks_only(const OpEntry& op, int entry) {
  const ScalarProgram& program = pointwise_program(op, entry);
  for (uint32_t output : program.outputs)
    if (program.dtype_of(output) == compute_type) return false;
  return true;
}

bool ends_gradient(const OpEntry& op) {
  if (op.returned_arg != 0 || forgets_history(op)) return false;
  if (op.def->vjp.kind != Vjp::Kind::automatic) return op.def->vjp.kind == Vjp::Kind::none;
  const OpEntry& row = op.functional ? *op.functional : op;
  for (int entry = 0; entry < op.def->formula.n_entries; ++entry)
    if (!gives_masks_only(row, entry)) return false;
  return bool(op.def->formula);
}

namespace {

// Of a rule: "grad" or "grad0" is that of result 0, "grad1?" that of result 1, "grads" are all.
bool is_gradient_of(std::string_view use, uint32_t result) {
  if (use.ends_with('?')) use.remove_suffix(1);
  return use == "grads" || (use == "grad" && result == 0) || use == "grad" + std::to_string(result);
}

bool uses_gradient_of(std::string_view uses, uint32_t result) {
  return std::ranges::any_of(uses | std::views::split(std::string_view(", ")), [&](auto use) {
    return is_gradient_of(std::string_view(use.begin(), use.end()), result);
  });
}

// Of ops that are made of parts, whose other results are constants to the tape.
bool has_first_only(OpId op) {
  return op == OpId::aten__batch_norm_no_update_default ||
         op == OpId::aten__fused_rms_norm_default ||
         op == OpId::aten_rrelu_with_noise_functional_default;
}

}  // namespace

bool has_gradient(const OpEntry& op, uint32_t result) {
  if (op.n_returns == 1 || op.schema.returns_list()) return true;
  const Vjp& vjp = op.def->vjp;
  if (vjp.kind != Vjp::Kind::rules) return result == 0 || !has_first_only(op.id);
  return std::ranges::any_of(std::span(vjp.rules, vjp.n_rules), [&](const VjpRule& rule) {
    return uses_gradient_of(rule.uses, result);
  });
}

}  // namespace tenon
