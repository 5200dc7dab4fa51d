// Tensors that end where readable memory ends.
#pragma once

#include <tenon/tensor.h>

namespace tenon {

/// The sizes, strides and elements of `t` in memory of its own, behind which nothing can be read:
/// whoever reads beyond it crashes, at once and always. What alignment leaves between the end and
/// that edge holds NaN. Where the system gives no such memory, `t` itself.
Tensor at_the_edge(const Tensor& t);

}  // namespace tenon
