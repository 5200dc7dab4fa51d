// Ops on complex tensors: what the rows mean there, as ops on the real and imaginary parts.
//
// A row's `.complex` takes the place of its kernel, meta function and derivative as soon as an
// argument is complex, so each backend computes it, gradients follow from the parts (of a real
// loss: with respect to the real part, plus i times that of the imaginary part, as in PyTorch), and
// graphs hold real ops between views. A row without it refuses complex tensors.
#pragma once

#include "ops/op_table.h"

namespace tenon {

/// Whether a call has a complex tensor among its arguments.
bool has_complex_input(const CallArgs& call);
/// Whether a call means the row's `.complex`.
inline bool is_complex_form(const CallArgs& call) {
  return call.op->def->complex && has_complex_input(call);
}
/// Runs the row's `.complex`. Throws UserError (unsupported) where the row has none.
void run_complex(const CallArgs& call);

namespace ops {

Tensor complex_add(const Tensor& self, const Tensor& other, Number alpha);
Tensor complex_add_number(const Tensor& self, Number other, Number alpha);
Tensor complex_sub(const Tensor& self, const Tensor& other, Number alpha);
Tensor complex_sub_number(const Tensor& self, Number other, Number alpha);
Tensor complex_mul(const Tensor& self, const Tensor& other);
Tensor complex_mul_number(const Tensor& self, Number other);
Tensor complex_div(const Tensor& self, const Tensor& other);
Tensor complex_div_number(const Tensor& self, Number other);
Tensor complex_pow(const Tensor& self, Number exponent);

Tensor complex_neg(const Tensor& self);
Tensor complex_reciprocal(const Tensor& self);
Tensor complex_abs(const Tensor& self);  ///< real; its gradient at 0 is 0
Tensor complex_sgn(const Tensor& self);
Tensor complex_sqrt(const Tensor& self);
Tensor complex_exp(const Tensor& self);
Tensor complex_log(const Tensor& self);
Tensor complex_sin(const Tensor& self);
Tensor complex_cos(const Tensor& self);

Tensor complex_eq(const Tensor& self, const Tensor& other);
Tensor complex_eq_number(const Tensor& self, Number other);
Tensor complex_ne(const Tensor& self, const Tensor& other);
Tensor complex_ne_number(const Tensor& self, Number other);
Tensor complex_isnan(const Tensor& self);
Tensor complex_isinf(const Tensor& self);
Tensor complex_isfinite(const Tensor& self);
Tensor complex_where(const Tensor& condition, const Tensor& self, const Tensor& other);

Tensor complex_sum(const Tensor& self, std::optional<Dtype> dtype);
Tensor complex_sum_dims(const Tensor& self, OptIntList dim, bool keepdim,
                        std::optional<Dtype> dtype);
Tensor complex_mean(const Tensor& self, std::optional<Dtype> dtype);
Tensor complex_mean_dims(const Tensor& self, OptIntList dim, bool keepdim,
                         std::optional<Dtype> dtype);
Tensor complex_cumsum(const Tensor& self, int64_t dim, std::optional<Dtype> dtype);
/// The dimension is taken at its present size; each step multiplies all that is left by halves.
Tensor complex_prod(const Tensor& self, std::optional<Dtype> dtype);
Tensor complex_prod_dim(const Tensor& self, int64_t dim, bool keepdim, std::optional<Dtype> dtype);
Tensor complex_cumprod(const Tensor& self, int64_t dim, std::optional<Dtype> dtype);
Tensor complex_vector_norm(const Tensor& self, Number ord, OptIntList dim, bool keepdim,
                           std::optional<Dtype> dtype);

Tensor complex_mm(const Tensor& self, const Tensor& mat2);
Tensor complex_bmm(const Tensor& self, const Tensor& mat2);
Tensor complex_addmm(const Tensor& self, const Tensor& mat1, const Tensor& mat2, Number beta,
                     Number alpha);
Tensor complex_vdot(const Tensor& self, const Tensor& other);

}  // namespace ops

}  // namespace tenon
