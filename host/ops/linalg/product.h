// Matrix products of tensors: the one way in which op rows reach the gemm kernels.
#pragma once

#include "core/tensor/tensor_impl.h"

namespace tenon::ops {

/// out = alpha * a @ b + beta * out for a [..., m, k], b [..., k, n] and out [..., m, n] of one
/// dtype. Batch dimensions of `a` and `b` broadcast to those of `out`; the last two dimensions of
/// `out` lie row by row. `out` is not read when beta is 0. Any strides of `a` and `b`; what no
/// kernel can read in place is copied first.
void multiply(const Tensor& out, const Tensor& a, const Tensor& b, Number alpha = 1,
              Number beta = 0);

/// The same sizes and strides with the last two dimensions exchanged.
Tensor transposed(const Tensor& t);

/// out = input @ weight^T + bias, rows of any number of leading dimensions taken together. `bias`
/// may be undefined.
void multiply_linear(const Tensor& out, const Tensor& input, const Tensor& weight,
                     const Tensor& bias);

/// beta * self + alpha * product; `self` is not read when beta is 0, and integers have integer
/// factors.
Tensor added_product(const Tensor& self, const Tensor& product, Number beta, Number alpha);

/// Throws UserError unless both have the same dtype.
void require_same_dtype(std::string_view op, const Tensor& a, const Tensor& b);

/// The same, and bools have no products of matrices.
void require_factors(std::string_view op, const Tensor& a, const Tensor& b);

}  // namespace tenon::ops
