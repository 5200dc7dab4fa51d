// Writing through chains of views, by the inverses in their rows. What has none there is scattered
// element by element.
#include "aot/view_inverse.h"

#include "core/error.h"
#include "core/sym/sym_int.h"
#include "core/tensor/tensor_impl.h"
#include "ops/op_ids.h"
#include "ops/op_table.h"
#include "ops/shapes.h"

#include <tenon/autograd.h>
#include <tenon/ops/create.h>

#include <algorithm>

namespace tenon {

bool gives_views(const OpEntry& op) {
  const Schema& schema = op.schema;
  return !op.def->custom && !op.mutated_args && schema.args.size() > 0 &&
         schema.returns.size() == 1 && !schema.args[0].alias.empty() &&
         !schema.returns[0].alias.empty();
}

Tensor apply_view(const ViewStep& step, const Tensor& parent) {
  std::vector<Value> args(step.args.begin(), step.args.end());
  Value& viewed = args[step.viewed.arg];
  std::vector<Tensor> list;
  if (step.viewed.element >= 0) {
    list.assign(viewed.as<Tensor>(), viewed.as<Tensor>() + viewed.count);
    list[static_cast<size_t>(step.viewed.element)] = parent;
  }
  viewed = list.empty() ? Value::of(parent) : Value::of(TensorList(list));
  Value results[8];
  auto n_results = step.op->schema.returns_list() ? 1u : step.op->n_returns;
  EnableGradGuard mode(thread_modes.grad_enabled && !step.without_grad);
  dispatch(*step.op, args.data(), static_cast<uint32_t>(args.size()), results, n_results);
  if (!step.op->schema.returns_list()) return take<Tensor>(results[step.result]);
  auto parts = take<std::vector<Tensor>>(results[0]);
  require(step.result < parts.size(), "{} gives {} tensors, and number {} of them is asked for",
          step.op->name, parts.size(), step.result);
  return parts[step.result];
}

namespace {

// Any views: the same views of the elements' own numbers tell where the elements lie.
Tensor into_numbered(std::span<const ViewStep> chain, const Tensor& base, const Tensor& content) {
  const std::string& view = chain.back().op->name;
  require(content.dtype() == base.dtype(), ErrorCode::unsupported,
          "writing through {} cannot be made functional: it shows {} as {}; clone the view before "
          "writing",
          view, base.dtype(), content.dtype());
  Tensor places = arange(base.numel(), Dtype::i64, {}, base.device()).reshape(base.sizes());
  for (const ViewStep& step : chain) places = apply_view(step, places);
  require(!has_internal_overlap(places), ErrorCode::unsupported,
          "writing through {} cannot be made functional: it shows an element twice; clone the view "
          "before writing",
          view);
  return base.reshape({-1})
      .scatter(0, places.reshape({-1}), content.reshape({-1}))
      .reshape(base.sizes());
}

Tensor scatter_view(const ViewStep& step, const Tensor& parent, const Tensor& content) {
  const InverseFn& inverse = step.op->def->inverse;
  if (!inverse.call) return into_numbered({&step, 1}, parent, content);
  return inverse.call(parent, content, static_cast<ViewPart>(step.result), step.args.data() + 1);
}

// What is written to a part of such a view changes other parts of it too.
bool shows_twice(const ViewStep& step) {
  return step.op->id == OpId::aten_as_strided_default &&
         may_show_twice(arg_as<SymIntList>(step.args[1]), arg_as<SymIntList>(step.args[2]));
}

// A part of a view without an inverse may have one itself, but the view does not.
bool has_no_inverse(const ViewStep& step) { return step.op->def->inverse.reason != nullptr; }

bool needs_numbers(std::span<const ViewStep> chain) {
  return std::ranges::any_of(chain, has_no_inverse) ||
         std::ranges::any_of(chain.first(chain.size() - 1), shows_twice);
}

}  // namespace

Tensor scatter_views(std::span<const ViewStep> chain, const Tensor& base, const Tensor& content) {
  if (chain.empty()) return content;
  if (needs_numbers(chain)) return into_numbered(chain, base, content);
  std::vector<Tensor> parents{base};
  for (const ViewStep& step : chain.first(chain.size() - 1))
    parents.push_back(apply_view(step, parents.back()));
  Tensor out = content;
  for (size_t k = chain.size(); k-- > 0;) out = scatter_view(chain[k], parents[k], out);
  return out;
}

}  // namespace tenon
