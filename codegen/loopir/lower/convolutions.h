// What the rules of convolutions share.
#pragma once

#include "loopir/lowering.h"

#include <algorithm>

namespace loopir {

/// Stride, padding, dilation and groups of a node, whose stride is argument `first` and whose
/// groups are argument `groups`; `ndim` is that of the operands.
template <class Step>
void fill_geometry(const tenon::plugin::node& n, size_t first, size_t groups, size_t ndim,
                   Step& out) {
  size_t n_space = ndim - 2;
  auto fill = [&](const tn_arg& a, int64_t(&space)[3], int64_t missing) {
    std::vector<int64_t> given = int_list(a, n_space);
    std::fill_n(space, 3, missing);
    std::copy(given.begin(), given.end(), space + 3 - n_space);
  };
  fill(n.args[first], out.stride, 1);
  fill(n.args[first + 1], out.padding, 0);
  fill(n.args[first + 2], out.dilation, 1);
  out.groups = int_arg(n.args[groups]);
}

/// [n, c, ...] with dimensions of length 1 put in, so that there are three of space.
View with_space(Expressions& x, View v);
/// A view of these sizes that is nowhere yet.
View future_view(Lowering& to, const Ids& sizes);

/// Whether a graph has convolutions or their gradients.
bool has_convolutions(const tenon::plugin::graph& graph);

/// Whether operands are the same kind of tensor, of a kind that convolutions here may have.
bool can_convolve(const Tensor& a, const Tensor& b);

/// What a step over operands of dtype `given` computes in: that, or f32 for narrow floats without a
/// fast kernel; nothing where the host is faster. Views need sizes only.
template <class Step>
std::optional<int32_t> computed_in(Lowering& to, Step step, int32_t given, size_t ndim) {
  std::vector<int32_t> candidates;
  if (given != TN_F16 || to.options.multiplies_f16) candidates.push_back(given);
  if (is_narrow(given)) candidates.push_back(TN_F32);
  for (int32_t dtype : candidates) {
    bool has_loops = dtype == TN_F32 && ndim < 5;  // where no kernel is fast
    step.dtype = dtype;
    if (has_loops || !to.options.has_fast_kernel || to.options.has_fast_kernel(to.program, step))
      return dtype;
  }
  return std::nullopt;
}

/// The tensor in the dtype in which it is computed, narrow floats in f32, and rounded once.
Tensor widened(Lowering& to, const Tensor& t);
/// An activation as a step in `dtype` reads it: with its channels dense in f64.
View activation_view(Lowering& to, const Tensor& t, int32_t dtype, const std::string& name);
/// The tensor as the result of an op, in that value's dtype.
void give(Lowering& to, uint32_t value, const Tensor& t);

/// A convolution of these operands as a new buffer, in the dtype that it is computed in; nothing
/// where the host is faster.
std::optional<Tensor> convolved(Lowering& to, Convolution c, const Tensor& source,
                                const Tensor& weights, const Tensor* bias, const Ids& sizes);
bool transposed_convolution(Lowering& to, const tenon::plugin::node& n);
bool convolution_backward(Lowering& to, const tenon::plugin::node& n);

}  // namespace loopir
