// What the rules of convolutions share.
#pragma once

#include "lowering.h"

namespace loopir {

/// [n, c, l] as [n, c, 1, l].
View with_height(Lowering& to, View v);

/// Stride, padding, dilation and groups of a node, whose stride is argument `first` and whose
/// groups are argument `groups`.
template <class Step>
void fill_geometry(Lowering& to, const tenon::plugin::node& n, size_t first, size_t groups,
                   size_t ndim, Step& out) {
  auto fill = [&](const tn_arg& a, int64_t(&pair)[2], int64_t missing) {
    std::vector<int64_t> given = to.int_list(a);
    pair[1] = given.back();
    pair[0] = ndim == 3 ? missing : given[0];
  };
  fill(n.args[first], out.stride, 1);
  fill(n.args[first + 1], out.padding, 0);
  fill(n.args[first + 2], out.dilation, 1);
  out.groups = to.int_arg(n.args[groups]);
}

/// A convolution of these operands as a new buffer.
Tensor convolved(Lowering& to, Convolution c, const Tensor& source, const Tensor& weights,
                 const Tensor* bias, const Ids& sizes);
bool transposed_convolution(Lowering& to, const tenon::plugin::node& n);
bool convolution_backward(Lowering& to, const tenon::plugin::node& n);

}  // namespace loopir
