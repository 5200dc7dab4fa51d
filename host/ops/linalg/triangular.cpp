// Cholesky's factorisation, triangular systems, and the exponential of matrices.
#include "ops/linalg/dense.h"

#include "core/sym_int.h"
#include "ops/linalg/dense_vjp.h"
#include "ops/op.h"

#include <tenon/ops.h>

#include <algorithm>
#include <cmath>

namespace tenon::ops {

namespace {

// ---- Cholesky

// In place: the lower factor, zeros above. Returns the order of the first minor that is not
// positive, or 0.
int64_t factor_cholesky(double* a, int64_t n) {
  for (int64_t j = 0; j < n; ++j) {
    double sum = a[j * n + j];
    for (int64_t k = 0; k < j; ++k) sum -= a[j * n + k] * a[j * n + k];
    if (!(sum > 0)) return j + 1;
    double pivot = a[j * n + j] = std::sqrt(sum);
    for (int64_t i = j + 1; i < n; ++i) {
      double x = a[i * n + j];
      for (int64_t k = 0; k < j; ++k) x -= a[i * n + k] * a[j * n + k];
      a[i * n + j] = x / pivot;
      a[j * n + i] = 0;
    }
  }
  return 0;
}

std::array<TensorMeta, 2> cholesky_metas(const Tensor& self, bool, bool) {
  require_square("linalg_cholesky", self);
  return {columns_meta(dims_of(self.sizes()), self.dtype(), self.device()),
          contiguous_meta(list_of(batch_with(self, {})), Dtype::i32, self.device())};
}

void cholesky_kernel(Tensor& l, Tensor& info, const Tensor& self, bool upper, bool check_errors) {
  Matrices m = matrices_of(upper ? transpose(self, -1, -2) : self);
  std::vector<double> broken;
  for (int64_t i = 0; i < m.count; ++i) {
    int64_t order = factor_cholesky(m.at(i), m.rows);
    require(!check_errors || order == 0,
            "linalg_cholesky: matrix {} of the batch is not positive definite: its leading minor "
            "of order {} is not positive",
            i, order);
    broken.push_back(static_cast<double>(order));
  }
  store(upper ? transpose(l, -1, -2) : l, m);
  store(info, broken);
}

Tensor checked_cholesky(const Tensor& self, bool upper) {
  return std::get<0>(linalg_cholesky_ex(self, upper, true));
}

TensorMeta cholesky_solve_meta(const Tensor& self, const Tensor& factor, bool) {
  require_matrices("cholesky_solve", self);
  require_square("cholesky_solve", factor);
  require(sizes_match(self.size(-2), factor.size(-1)),
          "cholesky_solve: shapes {} and {} do not fit", self.sizes(), factor.sizes());
  Dims sizes = broadcast_sizes(sizes_before(self, 2), sizes_before(factor, 2));
  sizes.push_back(self.size(-2));
  sizes.push_back(self.size(-1));
  return columns_meta(sizes, self.dtype(), self.device());
}

Tensor with_batch_of(const Tensor& t, const Tensor& out) {
  Dims sizes = batch_with(out, {t.size(-2), t.size(-1)});
  return expand(t, list_of(sizes));
}

void cholesky_solve_kernel(Tensor& out, const Tensor& self, const Tensor& factor, bool upper) {
  Matrices x = matrices_of(with_batch_of(self, out)), a = matrices_of(with_batch_of(factor, out));
  for (int64_t i = 0; i < x.count; ++i) {
    solve_triangle(a.at(i), a.rows, {upper, false, upper}, x.at(i), x.cols);
    solve_triangle(a.at(i), a.rows, {upper, false, !upper}, x.at(i), x.cols);
  }
  store(out, x);
}

// ---- triangular systems

TensorMeta triangular_meta(const Tensor& a, const Tensor& b, bool, bool left, bool) {
  require_square("linalg_solve_triangular", a);
  require_matrices("linalg_solve_triangular", b);
  require(sizes_match(a.size(-1), left ? b.size(-2) : b.size(-1)),
          "linalg_solve_triangular: shapes {} and {} do not fit", a.sizes(), b.sizes());
  Dims sizes = broadcast_sizes(sizes_before(a, 2), sizes_before(b, 2));
  sizes.push_back(b.size(-2));
  sizes.push_back(b.size(-1));
  return columns_meta(sizes, b.dtype(), b.device());
}

void triangular_kernel(Tensor& out, const Tensor& a, const Tensor& b, bool upper, bool left,
                       bool unit) {
  Tensor right = with_batch_of(b, out);
  Matrices x = matrices_of(left ? right : transpose(right, -1, -2)),
           t = matrices_of(with_batch_of(a, out));
  for (int64_t i = 0; i < x.count; ++i)
    solve_triangle(t.at(i), t.rows, {upper, unit, !left}, x.at(i), x.cols);
  store(left ? out : transpose(out, -1, -2), x);
}

std::array<TensorMeta, 2> old_triangular_metas(const Tensor& b, const Tensor& a, bool, bool, bool) {
  TensorMeta x = triangular_meta(a, b, false, true, false);
  Dims sizes = x.sizes;
  sizes[sizes.size() - 1] = a.size(-1);
  return {x, columns_meta(sizes, a.dtype(), a.device())};
}

void old_triangular_kernel(Tensor& out, Tensor& copy, const Tensor& b, const Tensor& a, bool upper,
                           bool transposed, bool unit) {
  Matrices x = matrices_of(with_batch_of(b, out)), t = matrices_of(with_batch_of(a, out));
  store(copy, t);
  for (int64_t i = 0; i < x.count; ++i)
    solve_triangle(t.at(i), t.rows, {upper, unit, transposed}, x.at(i), x.cols);
  store(out, x);
}

// ---- the exponential: Taylor's series of A / 2^s to the power 2^s

void multiply_square(const double* a, const double* b, double* c, int64_t n) {
  std::fill_n(c, n * n, 0.0);
  for (int64_t i = 0; i < n; ++i)
    for (int64_t k = 0; k < n; ++k)
      for (int64_t j = 0; j < n; ++j) c[i * n + j] += a[i * n + k] * b[k * n + j];
}

double row_sum_norm(const double* a, int64_t n) {
  double largest = 0;
  for (int64_t i = 0; i < n; ++i) {
    double sum = 0;
    for (int64_t j = 0; j < n; ++j) sum += std::fabs(a[i * n + j]);
    largest = std::max(largest, sum);
  }
  return largest;
}

void exponentiate(double* a, int64_t n) {
  auto size = static_cast<size_t>(n * n);
  double norm = row_sum_norm(a, n);
  int halvings = norm > 0.5 ? std::max(0, std::ilogb(norm) + 2) : 0;
  for (size_t i = 0; i < size; ++i) a[i] = std::ldexp(a[i], -halvings);
  std::vector<double> sum(size, 0.0), term(size, 0.0), next(size);
  for (int64_t i = 0; i < n; ++i) sum[static_cast<size_t>(i * n + i)] = 1;
  term = sum;
  for (int k = 1; k <= 18; ++k) {
    multiply_square(term.data(), a, next.data(), n);
    for (size_t i = 0; i < size; ++i) {
      term[i] = next[i] / k;
      sum[i] += term[i];
    }
  }
  for (int k = 0; k < halvings; ++k) {
    multiply_square(sum.data(), sum.data(), next.data(), n);
    sum.swap(next);
  }
  std::copy(sum.begin(), sum.end(), a);
}

TensorMeta matrix_exp_meta(const Tensor& self) {
  require(self.dim() >= 2 && sizes_match(self.size(-1), self.size(-2)),
          "matrix_exp: square matrices are expected, found shape {}", self.sizes());
  require(is_floating(self.dtype()), "matrix_exp: a floating dtype is expected, found {}",
          self.dtype());
  return contiguous_meta(self.sizes(), self.dtype(), self.device());
}

void matrix_exp_kernel(Tensor& out, const Tensor& self) {
  Matrices m = matrices_of(self);
  for (int64_t i = 0; i < m.count; ++i) exponentiate(m.at(i), m.rows);
  store(out, m);
}

}  // namespace

static constexpr OpDef rows[] = {
    {.schema = "linalg_cholesky_ex(Tensor self, *, bool upper=False, bool check_errors=False) -> "
               "(Tensor L, Tensor info)",
     .meta = fn<cholesky_metas>,
     .eager = fn<cholesky_kernel>,
     .vjp = {{"self", "grad0, result0, upper", fn<cholesky_vjp>}}},
    {.schema = "linalg_cholesky(Tensor self, *, bool upper=False) -> Tensor",
     .decomp = fn<checked_cholesky>},
    {.schema = "cholesky(Tensor self, bool upper=False) -> Tensor", .decomp = fn<checked_cholesky>},
    {.schema = "cholesky_solve(Tensor self, Tensor input2, bool upper=False) -> Tensor",
     .meta = fn<cholesky_solve_meta>,
     .eager = fn<cholesky_solve_kernel>,
     .vjp = {{"self", "grad, input2, upper",
              [](const Tensor& g, const Tensor& l, bool upper) {
                return g.cholesky_solve(l, upper);
              }},
             {"input2", "grad, result, input2, upper",
              [](const Tensor& g, const Tensor& x, const Tensor& l, bool upper) {
                Tensor common = g.cholesky_solve(l, upper).matmul(x.mT());
                Tensor both = common.add(common.mT());
                return (upper ? l.matmul(both) : both.matmul(l)).neg();
              }}}},
    {.schema = "cholesky_inverse(Tensor self, bool upper=False) -> Tensor",
     .decomp =
         [](const Tensor& self, bool upper) {
           Tensor one = expand(eye(self.size(-1), self.dtype()), self.sizes());
           return cholesky_solve(one, self, upper);
         }},
    {.schema = "linalg_solve_triangular(Tensor self, Tensor B, *, bool upper, bool left=True, bool "
               "unitriangular=False) -> Tensor",
     .meta = fn<triangular_meta>,
     .eager = fn<triangular_kernel>,
     .vjp = {{"self, B", "grad, self, result, upper, left, unitriangular, needs",
              fn<solve_triangular_vjp>}}},
    {.schema =
         "triangular_solve(Tensor self, Tensor A, bool upper=True, bool transpose=False, bool "
         "unitriangular=False) -> (Tensor solution, Tensor cloned_coefficient)",
     .meta = fn<old_triangular_metas>,
     .eager = fn<old_triangular_kernel>,
     .vjp = {{"self, A", "grad0, grad1?, A, result0, upper, transpose, unitriangular, needs",
              fn<old_triangular_solve_vjp>}}},
    {.schema = "linalg_matrix_exp(Tensor self) -> Tensor",
     .meta = fn<matrix_exp_meta>,
     .eager = fn<matrix_exp_kernel>,
     .vjp = {{"self", "grad, self", fn<matrix_exp_vjp>}}},
    {.schema = "matrix_exp(Tensor self) -> Tensor",
     .decomp = [](const Tensor& self) { return linalg_matrix_exp(self); }},
};

extern constinit const OpFamily op_family_linalg_triangular{rows};

}  // namespace tenon::ops
