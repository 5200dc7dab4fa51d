// softmax and log_softmax along one dimension, and their derivatives.
//
// Problem: the dimension may lie anywhere; rows must neither overflow nor lose small terms.
// Method: the input is taken row-major as (outer, dim, inner); each (outer, inner) pair is one row
//   with elements `inner` apart. The forward forms are vector kernels, see core/kernels/rows/softmax.h.
#include "core/kernels/rows/softmax.h"
#include "core/kernels/level_table.h"
#include "core/kernels/pointwise_loop.h"
#include "core/threads/thread_pool.h"
#include "ops/op.h"
#include "ops/reduce/reduce_loop.h"
#include "ops/shape_check.h"
#include "ops/vjp_rules.h"

#include <tenon/ops/copy.h>
#include <tenon/ops/pointwise.h>
#include <tenon/ops/reduce.h>

#include <cmath>

namespace tenon::ops {

namespace {

// Rows of a row-major tensor along one dimension.
struct Rows {
  int64_t count, length, step;
  int64_t start(int64_t row) const { return row / step * length * step + row % step; }
};

Rows rows_along(const Tensor& t, int64_t dim) {
  if (t.dim() == 0) return {1, 1, 1};
  auto at = static_cast<size_t>(wrap_dim(dim, t.dim()));
  Rows rows{0, sizes_of(t)[at], 1};
  for (size_t d = at + 1; d < sizes_of(t).size(); ++d) rows.step *= sizes_of(t)[d];
  rows.count = rows.length ? numel_of(t) / rows.length : 0;
  return rows;
}

template <class F>
void for_each_softmax_row(const Rows& rows, const F& body) {
  parallel_for(0, rows.count, std::max<int64_t>(1, 4096 / std::max<int64_t>(1, rows.length)),
               [&](int64_t lo, int64_t hi) {
                 for (int64_t r = lo; r < hi; ++r) body(rows.start(r));
               });
}

TensorMeta softmax_meta(const Tensor& self, int64_t dim, bool half_to_float) {
  wrap_dim(dim, self.dim());
  require(is_floating(self.dtype()), "softmax: a floating dtype is expected, found {}; pass dtype",
          self.dtype());
  return contiguous_meta(self.sizes(), half_to_float ? Dtype::f32 : self.dtype(), self.device());
}

template <bool logarithm>
void softmax_kernel(Tensor& out, const Tensor& self, int64_t dim, bool) {
  Tensor in = converted(self, out.dtype());
  Rows rows = rows_along(in, dim);
  if (rows.count == 0) return;
  dispatch_floating(in.dtype(), "softmax", [&]<class T>() {
    kernels::softmax(data_of<T>(in), data_of<T>(out), rows.count / rows.step, rows.length,
                     rows.step, logarithm);
  });
}

TensorMeta backward_meta(const Tensor& grad, const Tensor& output, int64_t dim, Dtype input_dtype) {
  wrap_dim(dim, grad.dim());
  require_shape("softmax backward", "output", output, grad.sizes());
  require_floating("softmax backward", grad.dtype());
  return contiguous_meta(grad.sizes(), input_dtype, grad.device());
}

// `out` is neither of the others.
template <class C>
void backward_dense_row(C* out, const C* grad, const C* y, int64_t n, bool logarithm) {
  const auto& level = kernels::row_level<C>();
  C sum = 0;
  if (logarithm) {
    sum = level.sum(grad, n);
    level.exp(y, out, n);
    for (int64_t i = 0; i < n; ++i) out[i] = grad[i] - out[i] * sum;
  } else {
    kernels::gemm_level<C>().dots(1, 1, n, grad, n, y, n, C(1), C(0), &sum, 1, 1);
    for (int64_t i = 0; i < n; ++i) out[i] = (grad[i] - sum) * y[i];
  }
}

template <class T, bool logarithm>
void backward_row(T* out, const T* grad, const T* y, int64_t n, int64_t step) {
  using C = ComputeOf<T>;
  if constexpr (std::is_same_v<T, C>)
    if (step == 1) return backward_dense_row(out, grad, y, n, logarithm);
  double sum = 0;
  for (int64_t i = 0; i < n; ++i)
    sum += static_cast<double>(static_cast<C>(grad[i * step])) *
           (logarithm ? 1 : static_cast<double>(static_cast<C>(y[i * step])));
  for (int64_t i = 0; i < n; ++i) {
    C g = grad[i * step], v = y[i * step], s = static_cast<C>(sum);
    out[i * step] = static_cast<T>(logarithm ? g - std::exp(v) * s : (g - s) * v);
  }
}

template <bool logarithm>
void backward_kernel(Tensor& out, const Tensor& grad, const Tensor& output, int64_t dim, Dtype) {
  Tensor g = contiguous_of(grad), y = converted(output, grad.dtype());
  Tensor result =
      out.dtype() == g.dtype() ? out : make_tensor(contiguous_meta(g.sizes(), g.dtype()));
  Rows rows = rows_along(g, dim);
  dispatch_floating(g.dtype(), "softmax backward", [&]<class T>() {
    for_each_softmax_row(rows, [&](int64_t at) {
      backward_row<T, logarithm>(data_of<T>(result) + at, data_of<T>(g) + at, data_of<T>(y) + at,
                                 rows.length, rows.step);
    });
  });
  if (!result.is_same(out)) copy_elements(out, result);
}

Tensor as_dtype(const Tensor& self, std::optional<Dtype> dtype) {
  return dtype ? to(self, *dtype) : self;
}

// A row of -inf everywhere gives zeros, not NaN.
template <class T>
void clear_masked_row(T* out, const T* in, int64_t n, int64_t step) {
  for (int64_t i = 0; i < n; ++i)
    if (static_cast<ComputeOf<T>>(in[i * step]) != -std::numeric_limits<ComputeOf<T>>::infinity())
      return;
  for (int64_t i = 0; i < n; ++i) out[i * step] = T(0.0f);
}

void safe_softmax_kernel(Tensor& out, const Tensor& self, int64_t dim, std::optional<Dtype>) {
  Tensor in = converted(self, out.dtype());
  softmax_kernel<false>(out, in, dim, false);
  Rows rows = rows_along(in, dim);
  dispatch_floating(in.dtype(), "_safe_softmax", [&]<class T>() {
    for_each_softmax_row(rows, [&](int64_t at) {
      clear_masked_row(data_of<T>(out) + at, data_of<T>(in) + at, rows.length, rows.step);
    });
  });
}

// Both in the type that sums are computed in.
std::pair<Tensor, Tensor> wide(const Tensor& a, const Tensor& b) {
  Dtype dtype = computing_dtype(a.dtype());
  return {to(a, dtype), to(b, dtype)};
}

}  // namespace

static constexpr OpDef reduce_softmax_rows[] = {
    {.schema = "_softmax(Tensor self, int dim, bool half_to_float) -> Tensor",
     .core = true,
     .meta = fn<softmax_meta>,
     .eager = fn<softmax_kernel<false>>,
     .vjp = {{"self", "grad, result, dim, self.meta",
              [](const Tensor& g, const Tensor& y, int64_t dim, const Tensor& like) {
                return _softmax_backward_data(g, y, dim, like.dtype());
              }}}},
    {.schema = "_log_softmax(Tensor self, int dim, bool half_to_float) -> Tensor",
     .core = true,
     .meta = fn<softmax_meta>,
     .eager = fn<softmax_kernel<true>>,
     .vjp = {{"self", "grad, result, dim, self.meta",
              [](const Tensor& g, const Tensor& y, int64_t dim, const Tensor& like) {
                return _log_softmax_backward_data(g, y, dim, like.dtype());
              }}}},
    {.schema = "softmax.int(Tensor self, int dim, ScalarType? dtype=None) -> Tensor",
     .decomp =
         [](const Tensor& self, int64_t dim, std::optional<Dtype> dtype) {
           return _softmax(as_dtype(self, dtype), dim, false);
         }},
    {.schema = "log_softmax.int(Tensor self, int dim, ScalarType? dtype=None) -> Tensor",
     .decomp =
         [](const Tensor& self, int64_t dim, std::optional<Dtype> dtype) {
           return _log_softmax(as_dtype(self, dtype), dim, false);
         }},
    {.schema = "_safe_softmax(Tensor self, int dim, ScalarType? dtype=None) -> Tensor",
     .meta =
         [](const Tensor& self, int64_t dim, std::optional<Dtype> dtype) {
           TensorMeta meta = softmax_meta(self, dim, false);
           meta.dtype = dtype.value_or(meta.dtype);
           require_floating("softmax", meta.dtype);
           return meta;
         },
     .eager = fn<safe_softmax_kernel>,
     .vjp = {{"self", "grad, result, dim, self.meta",
              [](const Tensor& g, const Tensor& y, int64_t dim, const Tensor& like) {
                return _softmax_backward_data(g.to(y.dtype()), y, dim, y.dtype()).to(like.dtype());
              }}}},
    {.schema = "_softmax_backward_data(Tensor grad_output, Tensor output, int dim, "
               "ScalarType input_dtype) -> Tensor",
     .meta = fn<backward_meta>,
     .eager = fn<backward_kernel<false>>,
     .decomp =
         [](const Tensor& grad, const Tensor& output, int64_t dim, Dtype input_dtype) {
           auto [g, y] = wide(grad, output);
           Tensor product = mul(g, y);
           return to(sub(product, mul(y, sum(product, {dim}, true))), input_dtype);
         },
     .vjp = {{"grad_output", "grad, output, dim, input_dtype",
              [](const Tensor& g, const Tensor& y, int64_t dim, Dtype dtype) {
                return _softmax_backward_data(g.to(y.dtype()), y, dim, dtype);
              }},
             {"output", "grad, grad_output, output, dim",
              [](const Tensor& g, const Tensor& go, const Tensor& y, int64_t dim) {
                return g.mul(go)
                    .sub(go.mul(g.mul(y).sum({dim}, true)))
                    .sub(g.mul(go.mul(y).sum({dim}, true)));
              }}}},
    {.schema = "_log_softmax_backward_data(Tensor grad_output, Tensor output, int dim, "
               "ScalarType input_dtype) -> Tensor",
     .meta = fn<backward_meta>,
     .eager = fn<backward_kernel<true>>,
     .decomp =
         [](const Tensor& grad, const Tensor& output, int64_t dim, Dtype input_dtype) {
           auto [g, y] = wide(grad, output);
           return to(sub(g, mul(exp(y), sum(g, {dim}, true))), input_dtype);
         },
     .vjp = {{"grad_output", "grad, output, dim",
              [](const Tensor& g, const Tensor& y, int64_t dim) {
                return g.sub(g.mul(y.exp()).sum({dim}, true));
              }},
             {"output", "grad, grad_output, output, dim",
              [](const Tensor& g, const Tensor& go, const Tensor& y, int64_t dim) {
                return g.mul(y.exp()).mul(go.sum({dim}, true)).neg();
              }}}},
};

extern constinit const OpFamily op_family_reduce_softmax{reduce_softmax_rows};

}  // namespace tenon::ops
