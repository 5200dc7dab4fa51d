// Batches of f64 matrices, LU with partial pivoting, substitution.
#include "ops/linalg/dense.h"

#include "core/sym_int.h"

#include <cmath>

namespace tenon::ops {

Matrices matrices_of(const Tensor& t) {
  Tensor copy = make_tensor(contiguous_meta(t.sizes(), Dtype::f64));
  copy_elements(copy, t);
  IntList sizes = sizes_of(t);
  Matrices m{copy, 1, sizes[sizes.size() - 2], sizes[sizes.size() - 1]};
  for (size_t d = 0; d + 2 < sizes.size(); ++d) m.count *= sizes[d];
  return m;
}

Matrices zero_matrices(int64_t count, int64_t rows, int64_t cols) {
  Matrices m{make_tensor(IntList{count, rows, cols}, Dtype::f64), count, rows, cols};
  fill_elements(m.data, 0);
  return m;
}

void store(const Tensor& out, const Matrices& m) {
  copy_elements(out, make_view(m.data, out.sizes(), list_of(contiguous_strides(out.sizes())), 0));
}

void store(const Tensor& out, const std::vector<double>& values) {
  Tensor all = make_tensor(contiguous_meta(out.sizes(), Dtype::f64));
  std::copy(values.begin(), values.end(), data_of<double>(all));
  copy_elements(out, all);
}

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

int64_t factor_lu(double* a, int64_t rows, int64_t cols, int64_t* pivots, bool pivot) {
  int64_t broken = 0, n = std::min(rows, cols);
  for (int64_t k = 0; k < n; ++k) {
    int64_t best = k;
    for (int64_t i = k + 1; pivot && i < rows; ++i)
      if (std::fabs(a[i * cols + k]) > std::fabs(a[best * cols + k])) best = i;
    pivots[k] = best + 1;
    if (best != k) std::swap_ranges(a + k * cols, a + (k + 1) * cols, a + best * cols);
    double divisor = a[k * cols + k];
    if (divisor == 0) {
      if (broken == 0) broken = k + 1;
      continue;
    }
    for (int64_t i = k + 1; i < rows; ++i) {
      double factor = a[i * cols + k] /= divisor;
      for (int64_t j = k + 1; j < cols; ++j) a[i * cols + j] -= factor * a[k * cols + j];
    }
  }
  return broken;
}

namespace {

void swap_rows(const int64_t* pivots, int64_t n, double* x, int64_t cols, bool backwards) {
  for (int64_t step = 0; step < n; ++step) {
    int64_t k = backwards ? n - 1 - step : step, other = pivots[k] - 1;
    if (other != k) std::swap_ranges(x + k * cols, x + (k + 1) * cols, x + other * cols);
  }
}

}  // namespace

void solve_lu(const double* lu, const int64_t* pivots, int64_t n, double* x, int64_t cols,
              bool transpose) {
  if (!transpose) swap_rows(pivots, n, x, cols, false);
  Triangle lower{false, true, transpose}, upper{true, false, transpose};
  solve_triangle(lu, n, transpose ? upper : lower, x, cols);
  solve_triangle(lu, n, transpose ? lower : upper, x, cols);
  if (transpose) swap_rows(pivots, n, x, cols, true);
}

void solve_triangle(const double* a, int64_t n, Triangle shape, double* x, int64_t cols) {
  bool from_end = shape.upper != shape.transpose;
  for (int64_t step = 0; step < n; ++step) {
    int64_t i = from_end ? n - 1 - step : step;
    double* row = x + i * cols;
    for (int64_t k = from_end ? i + 1 : 0; k < (from_end ? n : i); ++k) {
      double factor = shape.transpose ? a[k * n + i] : a[i * n + k];
      for (int64_t c = 0; c < cols; ++c) row[c] -= factor * x[k * cols + c];
    }
    if (shape.unit) continue;
    for (int64_t c = 0; c < cols; ++c) row[c] /= a[i * n + i];
  }
}

}  // namespace tenon::ops
