// Cholesky's factorisation, triangular systems, and the exponential of matrices.
#include "ops/linalg/dense.h"

#include "core/error.h"
#include "core/sym/sym_int.h"
#include "ops/linalg/dense_vjp.h"
#include "ops/linalg/product.h"
#include "ops/op.h"

#include <tenon/ops/create.h>
#include <tenon/ops/linalg.h>
#include <tenon/ops/view.h>

namespace tenon::ops {

namespace {

// ---- Cholesky

std::array<TensorMeta, 2> cholesky_metas(const Tensor& self, bool, bool) {
  require_square("linalg_cholesky", self);
  return {columns_meta(dims_of(self.sizes()), self.dtype(), self.device()),
          contiguous_meta(list_of(batch_with(self, {})), Dtype::i32, self.device())};
}

Tensor checked_cholesky(const Tensor& self, bool upper) {
  return std::get<0>(linalg_cholesky_ex(self, upper, true));
}

TensorMeta cholesky_solve_meta(const Tensor& self, const Tensor& factor, bool) {
  require_matrices("cholesky_solve", self);
  require_square("cholesky_solve", factor);
  require(sizes_match(self.size(-2), factor.size(-1)),
          "cholesky_solve: shapes {} and {} do not fit", self.sizes(), factor.sizes());
  require_same_dtype("cholesky_solve", self, factor);
  Dims sizes = broadcast_sizes(sizes_before(self, 2), sizes_before(factor, 2));
  sizes.push_back(self.size(-2));
  sizes.push_back(self.size(-1));
  return columns_meta(sizes, self.dtype(), self.device());
}

// ---- triangular systems

TensorMeta triangular_meta(const Tensor& a, const Tensor& b, bool, bool left, bool) {
  require_square("linalg_solve_triangular", a);
  require_matrices("linalg_solve_triangular", b);
  require(sizes_match(a.size(-1), left ? b.size(-2) : b.size(-1)),
          "linalg_solve_triangular: shapes {} and {} do not fit", a.sizes(), b.sizes());
  require_same_dtype("linalg_solve_triangular", a, b);
  Dims sizes = broadcast_sizes(sizes_before(a, 2), sizes_before(b, 2));
  sizes.push_back(b.size(-2));
  sizes.push_back(b.size(-1));
  return columns_meta(sizes, b.dtype(), b.device());
}

std::array<TensorMeta, 2> old_triangular_metas(const Tensor& b, const Tensor& a, bool, bool, bool) {
  TensorMeta x = triangular_meta(a, b, false, true, false);
  Dims sizes = x.sizes;
  sizes[sizes.size() - 1] = a.size(-1);
  return {x, columns_meta(sizes, a.dtype(), a.device())};
}

TensorMeta matrix_exp_meta(const Tensor& self) {
  require(self.dim() >= 2 && sizes_match(self.size(-1), self.size(-2)),
          "matrix_exp: square matrices are expected, found shape {}", self.sizes());
  require(is_floating(self.dtype()) && itemsize(self.dtype()) > 1,
          "matrix_exp: a floating dtype is expected, found {}", self.dtype());
  return contiguous_meta(self.sizes(), self.dtype(), self.device());
}

}  // namespace

static constexpr OpDef linalg_triangular_rows[] = {
    {.schema = "linalg_cholesky_ex(Tensor self, *, bool upper=False, bool check_errors=False) -> "
               "(Tensor L, Tensor info)",
     .meta = fn<cholesky_metas>,
     .provider = lapack,
     .vjp = {{"self", "grad0, result0, upper", fn<cholesky_vjp>}},
     .autocast = Autocast::fp32},
    {.schema = "linalg_cholesky(Tensor self, *, bool upper=False) -> Tensor",
     .decomp = fn<checked_cholesky>,
     .autocast = Autocast::fp32},
    {.schema = "cholesky(Tensor self, bool upper=False) -> Tensor",
     .decomp = fn<checked_cholesky>,
     .autocast = Autocast::fp32},
    {.schema = "cholesky_solve(Tensor self, Tensor input2, bool upper=False) -> Tensor",
     .meta = fn<cholesky_solve_meta>,
     .provider = lapack,
     .vjp = {{"self", "grad, input2, upper",
              [](const Tensor& g, const Tensor& l, bool upper) {
                return g.cholesky_solve(l, upper);
              }},
             {"input2", "grad, result, input2, upper",
              [](const Tensor& g, const Tensor& x, const Tensor& l, bool upper) {
                Tensor common = g.cholesky_solve(l, upper).matmul(x.mT());
                Tensor both = common.add(common.mT());
                return (upper ? l.matmul(both) : both.matmul(l)).neg();
              }}},
     .linear = "self",
     .autocast = Autocast::fp32},
    {.schema = "cholesky_inverse(Tensor self, bool upper=False) -> Tensor",
     .decomp =
         [](const Tensor& self, bool upper) {
           Tensor one =
               expand(eye(self.size(-1), self.dtype(), std::nullopt, self.device()), self.sizes());
           return cholesky_solve(one, self, upper);
         },
     .autocast = Autocast::fp32},
    {.schema = "linalg_solve_triangular(Tensor self, Tensor B, *, bool upper, bool left=True, bool "
               "unitriangular=False) -> Tensor",
     .meta = fn<triangular_meta>,
     .provider = lapack,
     .vjp = {{"self, B", "grad, self, result, upper, left, unitriangular, needs",
              fn<solve_triangular_vjp>}}},
    {.schema =
         "triangular_solve(Tensor self, Tensor A, bool upper=True, bool transpose=False, bool "
         "unitriangular=False) -> (Tensor solution, Tensor cloned_coefficient)",
     .meta = fn<old_triangular_metas>,
     .provider = lapack,
     .vjp = {{"self, A", "grad0, grad1?, A, result0, upper, transpose, unitriangular, needs",
              fn<old_triangular_solve_vjp>}},
     .autocast = Autocast::fp32},
    {.schema = "linalg_matrix_exp(Tensor self) -> Tensor",
     .meta = fn<matrix_exp_meta>,
     .provider = lapack,
     .vjp = {{"self", "grad, self", fn<matrix_exp_vjp>}}},
    {.schema = "matrix_exp(Tensor self) -> Tensor",
     .decomp = [](const Tensor& self) { return linalg_matrix_exp(self); }},
};

extern constinit const OpFamily op_family_linalg_triangular{linalg_triangular_rows};

}  // namespace tenon::ops
