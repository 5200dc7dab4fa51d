// Copies of inputs whose strides are not the promised ones.
#include "model/input_layout.h"

#include "core/error.h"
#include "core/sym/sym_eval.h"
#include "core/sym/symbol_numbers.h"
#include "core/tensor/tensor_impl.h"
#include "formats/pt2/pt2_import_parts.h"
#include "graph/text/print.h"
#include "model/shared_memory.h"

#include <tenon/autograd.h>
#include <tenon/ops/create.h>
#include <tenon/ops/view.h>

#include <algorithm>
#include <functional>
#include <optional>

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

}  // namespace

// Strides of dimensions that have one element mean nothing, and so do those of empty tensors.
bool lies_as_promised(const Graph& graph, size_t input, const detail::TensorHead& given,
                      std::span<const int64_t> symbols) {
  if (given.numel == 0) return true;
  const GraphValue& value = graph.value(graph.inputs()[input]);
  for (size_t d = 0; d < value.meta.strides.size(); ++d)
    if (given.sizes[d] != 1 &&
        given.strides[d] != value_with(graph, value.meta.strides[d], symbols))
      return false;
  return true;
}

std::vector<int64_t> dims_with(const Graph& graph, const Dims& dims,
                               std::span<const int64_t> symbols) {
  std::vector<int64_t> out;
  for (SymInt dim : dims) out.push_back(value_with(graph, dim, symbols));
  return out;
}

LaidOutInputs::LaidOutInputs(const Graph& graph, std::span<detail::TensorHead*> inputs,
                             std::span<const int64_t> symbols, std::span<const Overlap> overlaps)
    : graph_(graph), given_(inputs), heads_(inputs) {
  for (size_t i = 0; i < inputs.size(); ++i) {
    const GraphValue& value = graph.value(graph.inputs()[i]);
    if (value.kind != ValueKind::tensor || !inputs[i]) continue;
    if (!lies_as_promised(graph, i, *inputs[i], symbols) && !is_shared(overlaps, i))
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

namespace {

/// Views of a copy as views of the tensor that it is a copy of: strides and offsets of the one are
/// taken apart into steps along its dimensions, of which the other has strides of its own.
class ViewOfGiven {
 public:
  ViewOfGiven(const Tensor& given, const Tensor& copy, const Tensor& view)
      : given_(given), copy_(copy), last_(static_cast<size_t>(copy.dim()), 0) {
    for (size_t d = 0; d < last_.size(); ++d)
      if (word(copy.sizes()[d]) > 1) order_.push_back(d);
    std::ranges::sort(order_, std::greater(), [&](size_t d) { return word(copy.strides()[d]); });
    const std::optional<int64_t> begin = add_steps(word(view.storage_offset()), 1);
    fits_ = begin.has_value();
    offset_ = word(given.storage_offset()) + begin.value_or(0);
    for (size_t d = 0; fits_ && d < static_cast<size_t>(view.dim()); ++d) {
      int64_t last = std::max<int64_t>(word(view.sizes()[d]) - 1, 0);
      std::optional<int64_t> stride = add_steps(last ? word(view.strides()[d]) : 0, last);
      fits_ = stride.has_value();
      strides_.push_back(stride.value_or(0));
    }
  }

  /// Undefined where the given tensor has no such view, such as one that flattens it.
  Tensor make(const Tensor& view) const {
    if (!fits_) return Tensor();
    return given_.as_strided(view.sizes(), SymIntList(IntList(strides_)), offset_);
  }

 private:
  static int64_t word(SymInt size) { return size.guard_int(); }

  // So many elements of the copy, as elements of the given tensor; nothing where `times` that leave
  // a dimension.
  std::optional<int64_t> add_steps(int64_t elements, int64_t times) {
    int64_t of_given = 0;
    for (size_t d : order_) {
      int64_t stride = word(copy_.strides()[d]), steps = elements / stride;
      elements -= steps * stride;
      of_given += steps * word(given_.strides()[d]);
      last_[d] += steps * times;
      if (last_[d] >= word(copy_.sizes()[d])) return std::nullopt;
    }
    return elements == 0 ? std::optional(of_given) : std::nullopt;
  }

  const Tensor &given_, &copy_;
  std::vector<size_t> order_;  // dimensions of more than one element, the widest steps first
  std::vector<int64_t> last_;  // how far the view reaches along each
  std::vector<int64_t> strides_;
  int64_t offset_ = 0;
  bool fits_ = false;
};

}  // namespace

void LaidOutInputs::show_given(std::span<Tensor> results) const {
  for (const auto& [input, copy] : copies_)
    for (Tensor& result : results) {
      bool is_of_it =
          result.defined() && shares_storage(result, copy) && result.dtype() == copy.dtype();
      // Only the copy knows how what was written on the tape was computed.
      if (!is_of_it || (result.requires_grad() && formats::written_inputs(graph_)[input])) continue;
      Tensor given = share(given_[input]);
      if (result.is_same(copy)) {
        result = std::move(given);
        continue;
      }
      if (given.requires_grad() && !result.requires_grad()) given = given.detach();
      Tensor view = ViewOfGiven(given, copy, result).make(result);
      if (view.defined()) result = std::move(view);
    }
}

}  // namespace tenon
