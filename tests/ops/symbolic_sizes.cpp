#include "symbolic_sizes.h"

#include "argument_changes.h"
#include "core/dispatch.h"
#include "core/sym/shape_env.h"
#include "core/sym/sym_eval.h"
#include "ops/kernel_loops.h"

#include <algorithm>
#include <map>
#include <optional>

namespace tenon::testing {

// Numbers in the place of tensors stay numbers.
static bool is_sized(const Tensor& t) { return t.defined() && !is_wrapped_number(t); }

SymbolicSizes::SymbolicSizes(const OpEntry& op, CallValues call) {
  ShapeEnvScope shapes(*env_);
  FakeScope fakes;
  for (Value& v : call.values) {
    if (v.tag == Tag::tensor)
      v = Value::of(call.tensors.emplace_back(add(*v.as<Tensor>())));
    else if (v.tag == Tag::tensors) {
      std::vector<Tensor> list;
      for (const Tensor& t : list_in(v)) list.push_back(add(t));
      v = Value::of(TensorList(call.tensor_lists.emplace_back(std::move(list))));
    }
  }
  try {
    OpResults results(op.n_returns);
    run_op(op, call, results);
    is_recorded_ = true;
  } catch (const Error&) {
    is_recorded_ = false;
  }
}

Tensor SymbolicSizes::add(const Tensor& t) {
  Argument& argument = arguments_.emplace_back();
  if (!is_sized(t)) return t;
  argument.defined = true;
  argument.dtype = t.dtype();
  auto input = static_cast<uint32_t>(arguments_.size() - 1);
  SymbolOptions own;
  own.policy = SymbolPolicy::own;
  for (uint32_t d = 0; d < t.sizes().size(); ++d)
    argument.sizes.push_back(env_->create_symbol(t.size(d).word(),
                                                 {SymbolSource::Kind::input_size, input, d},
                                                 message("arg{}.size({})", input, d), own));
  return make_fake(contiguous_meta(list_of(argument.sizes), t.dtype()));
}

std::vector<Tensor> SymbolicSizes::tensors_of(const CallValues& call) {
  std::vector<Tensor> out;
  for (const Value& v : call.values) {
    if (v.tag == Tag::tensor) out.push_back(*v.as<Tensor>());
    for (const Tensor& t : list_in(v)) out.push_back(t);
  }
  return out;
}

bool SymbolicSizes::serve(const CallValues& call) const {
  if (!is_recorded_) return false;
  std::vector<Tensor> tensors = tensors_of(call);
  if (tensors.size() != arguments_.size()) return false;
  std::map<const Expr*, int64_t> values;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const Argument& argument = arguments_[i];
    if (is_sized(tensors[i]) != argument.defined) return false;
    if (!argument.defined) continue;
    if (tensors[i].dtype() != argument.dtype || tensors[i].sizes().size() != argument.sizes.size())
      return false;
    for (size_t d = 0; d < argument.sizes.size(); ++d) {
      int64_t size = tensors[i].sizes()[d].word();
      SymInt known = argument.sizes[d];
      if (!known.is_symbolic() && known.word() != size) return false;
      if (known.is_symbolic()) values[known.expr()] = size;
    }
  }
  auto value_of = [&](const Expr* symbol) -> std::optional<SymValue> {
    auto found = values.find(symbol);
    if (found == values.end()) return std::nullopt;
    return SymValue::of_int(found->second);
  };
  return std::ranges::all_of(env_->guard_conditions(), [&](const RecordedGuard& guard) {
    std::optional<SymValue> value = evaluate(guard.condition, value_of);
    return value && value->integer() != 0;
  });
}

}  // namespace tenon::testing
