// Checks and metas of batches of matrices.
#include "ops/linalg/dense.h"

#include "core/error.h"
#include "core/sym/sym_int.h"

namespace tenon::ops {

void require_matrices(std::string_view op, const Tensor& t) {
  require(t.dim() >= 2, "{}: matrices are expected, found shape {}", op, t.sizes());
  require(t.dtype() == Dtype::f32 || t.dtype() == Dtype::f64, ErrorCode::unsupported,
          "{}: f32 or f64 is expected, found dtype {}; cast the input", op, t.dtype());
}

void require_square(std::string_view op, const Tensor& t) {
  require_matrices(op, t);
  require(sizes_match(t.size(-1), t.size(-2)), "{}: square matrices are expected, found shape {}",
          op, t.sizes());
}

Dims batch_with(const Tensor& t, std::initializer_list<SymInt> last, size_t n_matrix_dims) {
  Dims sizes = dims_of(sizes_before(t, n_matrix_dims));
  for (SymInt s : last) sizes.push_back(s);
  return sizes;
}

TensorMeta columns_meta(Dims sizes, Dtype dtype, Device device) {
  size_t n = sizes.size();
  std::swap(sizes[n - 1], sizes[n - 2]);
  Dims strides = contiguous_strides(list_of(sizes));
  std::swap(sizes[n - 1], sizes[n - 2]);
  std::swap(strides[n - 1], strides[n - 2]);
  return {dtype, device, std::move(sizes), std::move(strides)};
}

TensorMeta rows_meta(const Dims& sizes, Dtype dtype, Device device) {
  return contiguous_meta(list_of(sizes), dtype, device);
}

SymInt smaller(SymInt a, SymInt b) { return sym_min(a, b); }

bool is_vector_case(const Tensor& a, const Tensor& b) {
  if (b.dim() == 1) return true;
  if (a.dim() - 1 != b.dim()) return false;
  for (int64_t d = 0; d < b.dim(); ++d)
    if (!sizes_match(a.size(d), b.size(d))) return false;
  return true;
}

}  // namespace tenon::ops
