// Inverses of the view ops: reshapes go back, selections become scatters. Those without a row in
// the table scatter element by element.
#include "aot/view_inverse.h"

#include "core/error.h"
#include "core/sym/sym_int.h"
#include "core/tensor/tensor_impl.h"
#include "ops/op_table.h"
#include "ops/shapes.h"

#include <tenon/autograd.h>
#include <tenon/ops.h>

#include <algorithm>
#include <map>

namespace tenon {

Tensor apply_view(const ViewStep& step, const Tensor& parent) {
  std::vector<Value> args(step.args.begin(), step.args.end());
  args[0] = Value::of(parent);
  Value results[8];
  auto n_results = step.op->schema.returns_list() ? 1u : step.op->n_returns;
  EnableGradGuard mode(thread_modes.grad_enabled && !step.without_grad);
  dispatch(*step.op, args.data(), static_cast<uint32_t>(args.size()), results, n_results);
  if (!step.op->schema.returns_list()) return take<Tensor>(results[step.result]);
  return take<std::vector<Tensor>>(results[0])[step.result];
}

namespace {

using Inverse = Tensor (*)(const ViewStep&, const Tensor& parent, const Tensor& content);

Tensor back_to_shape(const ViewStep&, const Tensor& parent, const Tensor& content) {
  return content.reshape(parent.sizes());
}

Tensor unchanged(const ViewStep&, const Tensor&, const Tensor& content) { return content; }

Tensor transpose_back(const ViewStep& step, const Tensor&, const Tensor& content) {
  return content.transpose(arg_as<int64_t>(step.args[1]), arg_as<int64_t>(step.args[2]));
}

Tensor t_back(const ViewStep&, const Tensor&, const Tensor& content) { return content.t(); }

Tensor permute_back(const ViewStep& step, const Tensor& parent, const Tensor& content) {
  IntList dims = arg_as<IntList>(step.args[1]);
  std::vector<int64_t> inverse(dims.size());
  for (size_t i = 0; i < dims.size(); ++i)
    inverse[static_cast<size_t>(wrap_dim(dims[i], parent.dim()))] = static_cast<int64_t>(i);
  return content.permute(inverse);
}

Tensor into_slice(const ViewStep& step, const Tensor& parent, const Tensor& content) {
  return slice_scatter(parent, content, arg_as<int64_t>(step.args[1]),
                       arg_as<std::optional<SymInt>>(step.args[2]),
                       arg_as<std::optional<SymInt>>(step.args[3]), arg_as<SymInt>(step.args[4]));
}

Tensor into_narrow(const ViewStep& step, const Tensor& parent, const Tensor& content) {
  int64_t dim = wrap_dim(arg_as<int64_t>(step.args[1]), parent.dim());
  SymInt begin = arg_as<SymInt>(step.args[2]);
  if (guard_or_false(begin < 0)) begin = begin + parent.size(dim);
  return slice_scatter(parent, content, dim, begin, begin + content.size(dim), 1);
}

Tensor into_select(const ViewStep& step, const Tensor& parent, const Tensor& content) {
  return select_scatter(parent, content, arg_as<int64_t>(step.args[1]),
                        arg_as<SymInt>(step.args[2]));
}

Tensor into_diagonal(const ViewStep& step, const Tensor& parent, const Tensor& content) {
  return diagonal_scatter(parent, content, arg_as<int64_t>(step.args[1]),
                          arg_as<int64_t>(step.args[2]), arg_as<int64_t>(step.args[3]));
}

Tensor into_strided(const ViewStep& step, const Tensor& parent, const Tensor& content) {
  return as_strided_scatter(parent, content, arg_as<SymIntList>(step.args[1]),
                            arg_as<SymIntList>(step.args[2]),
                            arg_as<std::optional<SymInt>>(step.args[3]));
}

Tensor into_unbound(const ViewStep& step, const Tensor& parent, const Tensor& content) {
  return select_scatter(parent, content, arg_as<int64_t>(step.args[1]),
                        SymInt(int64_t{step.result}));
}

// A part of a split is a slice; where it begins is found by adding the parts before it.
Tensor into_part(const ViewStep& step, const Tensor& parent, const Tensor& content) {
  int64_t dim = wrap_dim(arg_as<int64_t>(step.args[2]), parent.dim());
  SymInt begin = 0;
  if (step.args[1].tag == Tag::ints) {
    SymIntList sizes = arg_as<SymIntList>(step.args[1]);
    for (uint32_t i = 0; i < step.result; ++i) begin = begin + sizes[i];
  } else {
    begin = arg_as<SymInt>(step.args[1]) * static_cast<int64_t>(step.result);
  }
  return slice_scatter(parent, content, dim, begin, begin + content.size(dim), 1);
}

// Any views: the same views of the elements' own numbers tell where the elements lie.
Tensor into_numbered(std::span<const ViewStep> chain, const Tensor& base, const Tensor& content) {
  const std::string& view = chain.back().op->name;
  require(content.dtype() == base.dtype(), ErrorCode::unsupported,
          "writing through {} cannot be made functional: it shows {} as {}; clone the view before "
          "writing",
          view, base.dtype(), content.dtype());
  Tensor places = arange(base.numel(), Dtype::i64).reshape(base.sizes());
  for (const ViewStep& step : chain) places = apply_view(step, places);
  require(!has_internal_overlap(places), ErrorCode::unsupported,
          "writing through {} cannot be made functional: it shows an element twice; clone the view "
          "before writing",
          view);
  return base.reshape({-1})
      .scatter(0, places.reshape({-1}), content.reshape({-1}))
      .reshape(base.sizes());
}

const std::map<std::string_view, Inverse>& inverses() {
  static const auto* table = new std::map<std::string_view, Inverse>{
      {"aten.view.default", back_to_shape},
      {"aten.reshape.default", back_to_shape},
      {"aten._unsafe_view.default", back_to_shape},
      {"aten.flatten.using_ints", back_to_shape},
      {"aten.unflatten.int", back_to_shape},
      {"aten.unsqueeze.default", back_to_shape},
      {"aten.squeeze.default", back_to_shape},
      {"aten.squeeze.dim", back_to_shape},
      {"aten.squeeze.dims", back_to_shape},
      {"aten.view_as.default", back_to_shape},
      {"aten._reshape_alias.default", back_to_shape},
      {"aten.alias.default", unchanged},
      {"aten.lift_fresh.default", unchanged},
      {"aten.detach.default", unchanged},
      {"aten.contiguous.default", unchanged},
      {"aten.to.dtype", unchanged},
      {"aten.to.dtype_layout", unchanged},
      {"aten.to.device", unchanged},
      {"aten.dropout.default", unchanged},
      {"aten.transpose.int", transpose_back},
      {"aten.swapaxes.default", transpose_back},
      {"aten.swapdims.default", transpose_back},
      {"aten.t.default", t_back},
      {"aten.permute.default", permute_back},
      {"aten.slice.Tensor", into_slice},
      {"aten.narrow.default", into_narrow},
      {"aten.select.int", into_select},
      {"aten.diagonal.default", into_diagonal},
      {"aten.as_strided.default", into_strided},
      {"aten.unbind.int", into_unbound},
      {"aten.split.Tensor", into_part},
      {"aten.split.sizes", into_part},
      {"aten.split_with_sizes.default", into_part},
  };
  return *table;
}

Tensor scatter_view(const ViewStep& step, const Tensor& parent, const Tensor& content) {
  auto found = inverses().find(step.op->name);
  if (found == inverses().end()) return into_numbered({&step, 1}, parent, content);
  return found->second(step, parent, content);
}

bool repeats_elements(const ViewStep& step) {
  const std::string& op = step.op->schema.name;
  return op == "expand" || op == "expand_as" || op == "broadcast_to" || op == "unfold";
}

}  // namespace

Tensor scatter_views(std::span<const ViewStep> chain, const Tensor& base, const Tensor& content) {
  if (chain.empty()) return content;
  // A part of a repeated view may show each element once, but its parent has no inverse.
  if (std::any_of(chain.begin(), chain.end(), repeats_elements))
    return into_numbered(chain, base, content);
  std::vector<Tensor> parents{base};
  for (const ViewStep& step : chain.first(chain.size() - 1))
    parents.push_back(apply_view(step, parents.back()));
  Tensor out = content;
  for (size_t k = chain.size(); k-- > 0;) out = scatter_view(chain[k], parents[k], out);
  return out;
}

}  // namespace tenon
