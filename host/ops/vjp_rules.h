// Pieces that the vjp rules of several rows share. All are compositions of ops: they can be traced
// and differentiated.
#pragma once

#include <tenon/tensor.h>

#include <string_view>
#include <tuple>

namespace tenon::ops {

/// The rule of an argument whose values do not matter to the result, only its shape.
inline constexpr auto no_gradient = [](const Tensor&) { return Tensor(); };
/// The same where PyTorch gives zeros.
inline constexpr auto zero_gradient = [](const Tensor& grad, const Tensor& self) {
  return grad.new_zeros(self.sizes());
};

/// The gradient of a reduction over `dims` (absent or empty: all) as one of the reduced tensor's
/// shape: dimensions that are gone come back and are expanded.
Tensor unreduced(const Tensor& grad, SymIntList sizes, OptIntList dims, bool keepdim);
Tensor unreduced(const Tensor& grad, SymIntList sizes, int64_t dim, bool keepdim);

/// How many elements a reduction over `dims` folds into one.
SymInt n_reduced(SymIntList sizes, OptIntList dims);

/// `t` times `factor` in the dtype of `t`, itself for 1. For integers the factor's fraction is cut off.
Tensor scaled(const Tensor& t, Number factor);

/// `grad` at the places that `indices` name along `dim`, zero elsewhere: of ops that select one
/// element of several (max.dim, sort, ...). `keepdim` false: grad and indices lack the dimension.
Tensor scattered(const Tensor& grad, SymIntList sizes, int64_t dim, const Tensor& indices,
                 bool keepdim);

/// A row of `cells` zeros with the elements of `grad` added, each at the cell that `cells_of_grad` (i64,
/// of the same shape) has for it: of views that show an element more than once.
Tensor added_by_cell(const Tensor& grad, const Tensor& cells_of_grad, SymInt cells);

/// `grad` shared out among the elements of `self` that are equal to `result` (or NaN like it).
/// Both have been unreduced; the sharing is over `dims`.
Tensor shared_out(const Tensor& grad, const Tensor& self, const Tensor& result, OptIntList dims,
                  bool keepdim);

/// The elements of `grad` that the indices of a pooling name, over the last `n` dimensions.
Tensor pooled_gather(const Tensor& grad, const Tensor& indices, int64_t n);

/// What gradients of a mean and of a reciprocal deviation, over `count` elements each, add to the
/// gradient of x; all broadcast with x. Undefined where neither gradient is there.
Tensor statistics_vjp(const Tensor& g_mean, const Tensor& g_rstd, const Tensor& x,
                      const Tensor& mean, const Tensor& rstd, SymInt count);

/// The product of all other elements along `dim`, for each: exact for zeros, too.
Tensor product_of_others(const Tensor& self, int64_t dim);

/// The gradients of self and src of scatter_reduce, with index as large as src.
std::tuple<Tensor, Tensor> scatter_reduce_vjp(const Tensor& grad, const Tensor& self, int64_t dim,
                                              const Tensor& index, const Tensor& src,
                                              std::string_view reduce, bool include_self,
                                              const Tensor& result);

/// Sums from the end to here.
Tensor reverse_cumsum(const Tensor& t, int64_t dim);

}  // namespace tenon::ops
