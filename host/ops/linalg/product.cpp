// Matrix products of tensors: chooses how each operand is read and groups batches into kernel
// calls.
#include "ops/linalg/product.h"

#include "core/kernels/gemm.h"
#include "ops/kernel_loops.h"
#include "ops/shapes.h"

#include <tenon/ops/pointwise.h>

#include <algorithm>

namespace tenon::ops {

namespace {

using kernels::Trans;

// How a kernel reads the last two dimensions of a tensor.
struct Reading {
  Tensor held;  // the tensor itself, or a copy
  Trans trans = Trans::no;
  int64_t ld = 1;
};

Reading reading_of(const Tensor& t) {
  size_t rank = static_cast<size_t>(t.dim());
  int64_t rows = sizes_of(t)[rank - 2], columns = sizes_of(t)[rank - 1];
  int64_t row_step = strides_of(t)[rank - 2], column_step = strides_of(t)[rank - 1];
  if ((columns <= 1 || column_step == 1) &&
      (rows <= 1 || row_step >= std::max<int64_t>(1, columns)))
    return {t, Trans::no, rows <= 1 ? std::max<int64_t>(1, columns) : row_step};
  if ((rows <= 1 || row_step == 1) && (columns <= 1 || column_step >= std::max<int64_t>(1, rows)))
    return {t, Trans::yes, columns <= 1 ? std::max<int64_t>(1, rows) : column_step};
  return {contiguous_of(t), Trans::no, std::max<int64_t>(1, columns)};
}

SymIntList batch_of(SymIntList dims) { return List<SymInt>(dims.data(), dims.size() - 2); }

// Batch dimensions with the distances of out, a and b.
Walk<3> batch_walk(const Tensor& out, const Tensor& a, const Tensor& b) {
  SymIntList sizes = batch_of(out.sizes());
  Dims left = broadcast_strides(batch_of(a.sizes()), batch_of(a.strides()), sizes);
  Dims right = broadcast_strides(batch_of(b.sizes()), batch_of(b.strides()), sizes);
  Walk<3> walk;
  for (size_t d = 0; d < sizes.size(); ++d)
    walk.add(sizes[d].word(), {strides_of(out)[d], left[d].word(), right[d].word()});
  return walk;
}

template <class T>
typename kernels::GemmScale<T>::type scale_of(Number n) {
  using Scale = typename kernels::GemmScale<T>::type;
  if constexpr (std::is_integral_v<T>)
    return static_cast<Scale>(n.to_int());
  else
    return static_cast<Scale>(n.to_double());
}

template <class T>
void multiply_typed(const Tensor& out, const Reading& a, const Reading& b, Number alpha,
                    Number beta) {
  size_t rank = static_cast<size_t>(out.dim());
  kernels::Gemm<T> call{.trans_a = a.trans, .trans_b = b.trans};
  call.m = sizes_of(out)[rank - 2];
  call.n = sizes_of(out)[rank - 1];
  call.k = sizes_of(a.held)[static_cast<size_t>(a.held.dim()) - 1];
  call.alpha = scale_of<T>(alpha);
  call.beta = scale_of<T>(beta);
  call.lda = a.ld;
  call.ldb = b.ld;
  call.ldc = call.m <= 1 ? std::max<int64_t>(1, call.n) : strides_of(out)[rank - 2];
  for_each_row(batch_walk(out, a.held, b.held),
               [&](const Offsets<3>& at, int64_t n, const Offsets<3>& step) {
                 call.c = data_of<T>(out) + at[0];
                 call.a = data_of<T>(a.held) + at[1];
                 call.b = data_of<T>(b.held) + at[2];
                 call.batch = n;
                 call.stride_c = step[0], call.stride_a = step[1], call.stride_b = step[2];
                 kernels::gemm(call);
               });
}

}  // namespace

void multiply(const Tensor& out, const Tensor& a, const Tensor& b, Number alpha, Number beta) {
  if (numel_of(out) == 0) return;
  Reading left = reading_of(a), right = reading_of(b);
  dispatch_dtype(out.dtype(), "a matrix product", [&]<class T>() {
    if constexpr (std::is_same_v<T, bool>)
      fail(ErrorCode::unsupported,
           "a matrix product is not defined for dtype bool; cast to an integer");
    else
      multiply_typed<T>(out, left, right, alpha, beta);
  });
}

Tensor transposed(const Tensor& t) {
  Dims sizes = dims_of(t.sizes()), strides = dims_of(t.strides());
  size_t rank = sizes.size();
  std::swap(sizes[rank - 1], sizes[rank - 2]);
  std::swap(strides[rank - 1], strides[rank - 2]);
  return make_view(t, list_of(sizes), list_of(strides), t.storage_offset());
}

void multiply_linear(const Tensor& out, const Tensor& input, const Tensor& weight,
                     const Tensor& bias) {
  if (bias.defined()) copy_broadcast(out, bias);
  Tensor rows = contiguous_of(input);
  size_t last = static_cast<size_t>(input.dim()) - 1;
  int64_t k = sizes_of(input)[last], n = sizes_of(out)[last], m = n ? numel_of(out) / n : 0;
  Tensor left =
      make_view(rows, {SymInt(m), SymInt(k)}, {SymInt(k), SymInt(1)}, rows.storage_offset());
  Tensor result =
      make_view(out, {SymInt(m), SymInt(n)}, {SymInt(n), SymInt(1)}, out.storage_offset());
  multiply(result, left, transposed(weight), 1, bias.defined() ? 1 : 0);
}

Tensor added_product(const Tensor& self, const Tensor& product, Number beta, Number alpha) {
  if (is_integral(self.dtype())) beta = beta.to_int(), alpha = alpha.to_int();
  bool reads = beta.is_symbolic() || beta.to_double() != 0;
  return reads ? add(mul(self, beta), product, alpha) : mul(product, alpha);
}

void require_same_dtype(std::string_view op, const Tensor& a, const Tensor& b) {
  require(a.dtype() == b.dtype(),
          "{}: both tensors must have one dtype, found {} and {}; cast one of them", op, a.dtype(),
          b.dtype());
}

void require_factors(std::string_view op, const Tensor& a, const Tensor& b) {
  require_same_dtype(op, a, b);
  require(a.dtype() != Dtype::bool_, ErrorCode::unsupported,
          "{}: bools have no products of matrices; cast them to a number's dtype", op);
}

}  // namespace tenon::ops
