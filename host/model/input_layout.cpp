// Copies of inputs whose strides are not the promised ones.
#include "model/input_layout.h"

#include "core/error.h"
#include "core/sym/sym_eval.h"
#include "core/sym/symbol_numbers.h"
#include "core/tensor/tensor_impl.h"
#include "formats/pt2/pt2_import_parts.h"
#include "graph/text/print.h"

#include <tenon/autograd.h>
#include <tenon/ops/create.h>

namespace tenon {

namespace {

int64_t value_with(const Graph& graph, SymInt dim, std::span<const int64_t> symbols) {
  if (!dim.is_symbolic()) return dim.word();
  auto value = evaluate(as_expr(dim), [&](const Expr* symbol) -> std::optional<SymValue> {
    for (size_t s = 0; s < graph.symbols.size(); ++s)
      if (graph.symbols[s].symbol == symbol) return SymValue{symbol->kind, symbols[s]};
    return std::nullopt;
  });
  // The text of another trace's size is the message's alone.
  if (!value) fail("{} of an input has no value", symbol_text(as_expr(dim)));
  return value->word;
}

// Strides of dimensions that have one element mean nothing, and so do those of empty tensors.
bool lies_as(const Graph& graph, const GraphValue& value, const tn_tensor& given,
             std::span<const int64_t> symbols) {
  if (given.numel == 0) return true;
  for (size_t d = 0; d < value.meta.strides.size(); ++d)
    if (given.sizes[d] != 1 &&
        given.strides[d] != value_with(graph, value.meta.strides[d], symbols))
      return false;
  return true;
}

}  // namespace

std::vector<int64_t> dims_with(const Graph& graph, const Dims& dims,
                               std::span<const int64_t> symbols) {
  std::vector<int64_t> out;
  for (SymInt dim : dims) out.push_back(value_with(graph, dim, symbols));
  return out;
}

LaidOutInputs::LaidOutInputs(const Graph& graph, std::span<detail::TensorHead*> inputs,
                             std::span<const int64_t> symbols)
    : graph_(graph), given_(inputs), heads_(inputs) {
  for (size_t i = 0; i < inputs.size(); ++i) {
    const GraphValue& value = graph.value(graph.inputs()[i]);
    if (value.kind != ValueKind::tensor || !inputs[i]) continue;
    if (!lies_as(graph, value, *inputs[i], symbols))
      lay_out(i, dims_with(graph, value.meta.strides, symbols));
  }
}

void LaidOutInputs::lay_out(size_t input, const std::vector<int64_t>& strides) {
  Tensor given = share(given_[input]);
  for (size_t d = 0; d < strides.size(); ++d)
    require(strides[d] != 0 || given.size(static_cast<int64_t>(d)).word() <= 1,
            "input {}: expected a tensor whose elements of dimension {} are one in memory, as "
            "expand() gives it; found {}",
            display_name(graph_, graph_.inputs()[input]), d, symbolic_text(given));
  Tensor copy =
      empty_strided(given.sizes(), SymIntList(IntList(strides)), given.dtype(), {}, given.device());
  copy.copy_(given);
  if (replaced_.empty()) replaced_.assign(given_.begin(), given_.end());
  replaced_[input] = copy.head();
  heads_ = replaced_;
  copies_.emplace_back(input, std::move(copy));
}

void LaidOutInputs::write_back() {
  if (copies_.empty()) return;
  NoGradGuard effect;  // the caller's tensor keeps the value, not how it was computed
  std::vector<bool> written = formats::written_inputs(graph_);
  for (const auto& [input, copy] : copies_)
    if (written[input]) share(given_[input]).copy_(copy);
}

}  // namespace tenon
