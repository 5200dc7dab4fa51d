// Factorisations with orthogonal matrices: QR, symmetric eigenvalues, singular values.
#include "ops/linalg/dense.h"

#include "core/sym/sym_int.h"
#include "ops/linalg/dense_vjp.h"
#include "ops/linalg/product.h"
#include "ops/op.h"
#include "ops/shape_check.h"

#include <tenon/ops.h>

#include <limits>

namespace tenon::ops {

namespace {

using Pair = std::tuple<Tensor, Tensor>;
using Triple = std::tuple<Tensor, Tensor, Tensor>;
using Driver = std::optional<std::string_view>;

// ---- QR

std::array<TensorMeta, 2> geqrf_metas(const Tensor& self) {
  require_matrices("geqrf", self);
  return {columns_meta(dims_of(self.sizes()), self.dtype(), self.device()),
          rows_meta(batch_with(self, {smaller(self.size(-1), self.size(-2))}), self.dtype(),
                    self.device())};
}

std::array<TensorMeta, 2> qr_metas(const Tensor& a, std::string_view mode) {
  require_matrices("linalg_qr", a);
  require(mode == "reduced" || mode == "complete" || mode == "r",
          "linalg_qr: mode must be reduced, complete or r, found '{}'", mode);
  SymInt m = a.size(-2), n = a.size(-1), k = mode == "complete" ? m : smaller(m, n);
  TensorMeta q = mode == "r" ? contiguous_meta({SymInt(0)}, a.dtype(), a.device())
                             : columns_meta(batch_with(a, {m, k}), a.dtype(), a.device());
  return {std::move(q), columns_meta(batch_with(a, {k, n}), a.dtype(), a.device())};
}

// At most as many reflections as `packed` has rows and columns, in vectors of the same batch.
void check_reflections(std::string_view op, const Tensor& packed, const Tensor& tau) {
  require_matrices(op, packed);
  require_same_dtype(op, packed, tau);
  SymInt n = tau.size(-1);
  require_shape(op, "tau", tau, list_of(batch_with(packed, {n})));
  require(bool(n <= packed.size(-1)) && bool(n <= packed.size(-2)),
          "{}: {} reflections do not fit into a matrix of shape {}", op, n, packed.sizes());
}

TensorMeta product_meta(const Tensor& packed, const Tensor& tau) {
  check_reflections("linalg_householder_product", packed, tau);
  require(bool(packed.size(-1) <= packed.size(-2)),
          "linalg_householder_product: at least as many rows as columns are expected, found shape "
          "{}",
          packed.sizes());
  return columns_meta(dims_of(packed.sizes()), packed.dtype(), packed.device());
}

TensorMeta ormqr_meta(const Tensor& packed, const Tensor& tau, const Tensor& other, bool left,
                      bool) {
  check_reflections("ormqr", packed, tau);
  require_matrices("ormqr", other);
  require_same_dtype("ormqr", packed, other);
  Dims sizes = batch_with(packed, {other.size(-2), other.size(-1)});
  sizes[sizes.size() - (left ? 2 : 1)] = packed.size(-2);
  require_shape("ormqr", "other", other, list_of(sizes));
  return columns_meta(dims_of(other.sizes()), other.dtype(), other.device());
}

// ---- symmetric eigenvalues

std::array<TensorMeta, 2> eigh_metas(const Tensor& a, std::string_view half, bool vectors) {
  require_square("linalg_eigh", a);
  require(half == "L" || half == "l" || half == "U" || half == "u",
          "linalg_eigh: UPLO must be 'L' or 'U', found '{}'", half);
  return {rows_meta(batch_with(a, {a.size(-1)}), a.dtype(), a.device()),
          vectors ? columns_meta(dims_of(a.sizes()), a.dtype(), a.device())
                  : contiguous_meta({SymInt(0)}, a.dtype(), a.device())};
}

// Of matrices without symmetry both are complex.
std::array<TensorMeta, 2> eig_metas(const Tensor& a) {
  require_square("linalg_eig", a);
  require(a.dtype() == Dtype::f32 || a.dtype() == Dtype::f64, ErrorCode::unsupported,
          "linalg_eig: a float or double matrix is expected, found {}", a.dtype());
  Dtype dtype = a.dtype() == Dtype::f64 ? Dtype::c128 : Dtype::c64;
  return {rows_meta(batch_with(a, {a.size(-1)}), dtype, a.device()),
          columns_meta(dims_of(a.sizes()), dtype, a.device())};
}

// ---- singular values

std::array<TensorMeta, 3> svd_metas(const Tensor& a, bool full, bool vectors, Driver) {
  require_matrices("linalg_svd", a);
  SymInt m = a.size(-2), n = a.size(-1), k = smaller(m, n);
  auto part = [&](SymInt rows, SymInt cols) {
    return vectors ? columns_meta(batch_with(a, {rows, cols}), a.dtype(), a.device())
                   : contiguous_meta({SymInt(0)}, a.dtype(), a.device());
  };
  return {part(m, full ? m : k), rows_meta(batch_with(a, {k}), a.dtype(), a.device()),
          part(full ? n : k, n)};
}

Tensor svdvals(const Tensor& a, Driver driver) {
  return std::get<1>(_linalg_svd(a, false, false, driver));
}

// ---- the pseudoinverse: singular values at or below the tolerance count as 0

// The larger of the absolute and the relative tolerance, which by default grows with the matrix.
Tensor tolerance_of(const Tensor& a, const Tensor& largest, const Tensor& atol,
                    const Tensor& rtol) {
  double eps = a.dtype() == Dtype::f64 ? std::numeric_limits<double>::epsilon()
                                       : std::numeric_limits<float>::epsilon();
  Number longer(sym_to_float(sym_max(a.size(-1), a.size(-2))));
  Tensor by_size = mul(mul(ones_like(largest), eps), longer);
  Tensor relative = rtol.defined()   ? rtol
                    : atol.defined() ? where(gt(atol, 0), zeros_like(largest), by_size)
                                     : by_size;
  Tensor tolerance = mul(largest, relative);
  if (atol.defined()) tolerance = maximum(tolerance, to(atol, a.dtype()));
  return to(tolerance, a.dtype());
}

/// The reciprocals of `values` whose sizes are above the tolerance, 0 for the others.
Tensor large_reciprocals(const Tensor& a, const Tensor& values, const Tensor& atol,
                         const Tensor& rtol) {
  Tensor sizes = abs(values);
  Tensor tolerance = tolerance_of(a, amax(sizes, {-1}), atol, rtol);
  return where(gt(sizes, unsqueeze(tolerance, -1)), reciprocal(values), zeros_like(values));
}

Tensor pinv(const Tensor& a, const Tensor& atol, const Tensor& rtol, bool hermitian) {
  require_matrices("linalg_pinv", a);
  if (guard_or_false(a.numel() == 0))
    return new_zeros(a, list_of(batch_with(a, {a.size(-1), a.size(-2)})));
  if (hermitian) {
    auto [values, vectors] = _linalg_eigh(a, "L", true);
    Tensor inverse = large_reciprocals(a, values, atol, rtol);
    return matmul(mul(vectors, unsqueeze(inverse, -2)), transpose(vectors, -1, -2));
  }
  auto [u, s, vh] = _linalg_svd(a, false, true, std::nullopt);
  Tensor inverse = large_reciprocals(a, s, atol, rtol);
  return matmul(mul(transpose(vh, -1, -2), unsqueeze(inverse, -2)), transpose(u, -1, -2));
}

// Singular values above the tolerance; of symmetric matrices they are the sizes of eigenvalues.
Tensor matrix_rank(const Tensor& a, const Tensor& atol, const Tensor& rtol, bool hermitian) {
  require_matrices("linalg_matrix_rank", a);
  if (guard_or_false(a.numel() == 0))
    return zeros(list_of(batch_with(a, {})), Dtype::i64, std::nullopt, a.device());
  Tensor s = hermitian ? abs(linalg_eigvalsh(a)) : svdvals(a, std::nullopt);
  Tensor tolerance = tolerance_of(a, amax(s, {-1}), atol, rtol);
  return sum(gt(s, unsqueeze(tolerance, -1)), {-1});
}

Tensor optional_number(std::optional<double> x) {
  return x ? scalar_tensor(*x, Dtype::f64) : Tensor();
}

// A = U H from A = V diag(s) W: U = V W and H = W^H diag(s) W.
Pair polar_decomp(const Tensor& a) {
  require_matrices("linalg_polar", a);
  require(bool(a.size(-2) >= a.size(-1)),
          "linalg_polar: at least as many rows as columns are expected, found shape {}", a.sizes());
  auto [left, values, right] = linalg_svd(a, false);
  return {matmul(left, right), matmul(mul(mH(right), unsqueeze(values, -2)), right)};
}

// X dX + dX X = dA for symmetric changes: in the basis of eigenvectors dX is dA over sums of roots.
Tensor matrix_sqrth_vjp(const Tensor& g, const Tensor& a) {
  auto [values, vectors] = linalg_eigh(a);
  Tensor roots = sqrt(values), sums = add(unsqueeze(roots, -1), unsqueeze(roots, -2));
  Tensor inner = matmul(matmul(mH(vectors), mul(add(g, mH(g)), 0.5)), vectors);
  return matmul(matmul(vectors, div(inner, sums)), mH(vectors));
}

}  // namespace

static constexpr OpDef linalg_orthogonal_rows[] = {
    {.schema = "geqrf(Tensor self) -> (Tensor a, Tensor tau)",
     .meta = fn<geqrf_metas>,
     .provider = lapack,
     .autocast = Autocast::fp32},
    {.schema = "linalg_qr(Tensor A, str mode=\"reduced\") -> (Tensor Q, Tensor R)",
     .meta = fn<qr_metas>,
     .provider = lapack,
     .vjp = {{"A", "grad0?, grad1?, result0, result1, A.meta, mode", fn<qr_vjp>}},
     .autocast = Autocast::fp32},
    {.schema = "qr(Tensor self, bool some=True) -> (Tensor Q, Tensor R)",
     .decomp = [](const Tensor& self,
                  bool some) { return linalg_qr(self, some ? "reduced" : "complete"); },
     .autocast = Autocast::fp32},
    {.schema = "linalg_householder_product(Tensor input, Tensor tau) -> Tensor",
     .meta = fn<product_meta>,
     .provider = lapack,
     .vjp = {{"input, tau", "grad, input, tau", fn<householder_product_vjp>}},
     .autocast = Autocast::fp32},
    {.schema = "orgqr(Tensor self, Tensor input2) -> Tensor",
     .decomp = [](const Tensor& self,
                  const Tensor& tau) { return linalg_householder_product(self, tau); },
     .autocast = Autocast::fp32},
    {.schema = "ormqr(Tensor self, Tensor input2, Tensor input3, bool left=True, bool "
               "transpose=False) -> Tensor",
     .meta = fn<ormqr_meta>,
     .provider = lapack,
     .vjp = {{"self, input2, input3", "grad, self, input2, input3, left, transpose",
              fn<ormqr_vjp>}},
     .autocast = Autocast::fp32},
    {.schema = "_linalg_eigh(Tensor A, str UPLO=\"L\", bool compute_v=True) -> (Tensor "
               "eigenvalues, Tensor eigenvectors)",
     .meta = fn<eigh_metas>,
     .provider = lapack,
     .vjp = {{"A", "grad0?, grad1?, result0, result1, A, UPLO, compute_v", fn<eigh_vjp>}}},
    {.schema = "linalg_eigh(Tensor self, str UPLO=\"L\") -> (Tensor eigenvalues, Tensor "
               "eigenvectors)",
     .decomp = [](const Tensor& self,
                  std::string_view half) { return _linalg_eigh(self, half, true); },
     .autocast = Autocast::fp32},
    {.schema = "linalg_eigvalsh(Tensor self, str UPLO=\"L\") -> Tensor",
     .decomp = [](const Tensor& self,
                  std::string_view half) { return std::get<0>(_linalg_eigh(self, half, false)); },
     .autocast = Autocast::fp32},
    {.schema = "linalg_eig(Tensor self) -> (Tensor eigenvalues, Tensor eigenvectors)",
     .meta = fn<eig_metas>,
     .provider = lapack,
     .vjp = {{"self", "grad0?, grad1?, result0, result1", fn<eig_vjp>}}},
    {.schema = "linalg_eigvals(Tensor self) -> Tensor",
     .decomp = [](const Tensor& self) { return std::get<0>(linalg_eig(self)); }},
    {.schema = "_linalg_svd(Tensor A, bool full_matrices=False, bool compute_uv=True, *, str? "
               "driver=None) -> (Tensor U, Tensor S, Tensor Vh)",
     .meta = fn<svd_metas>,
     .provider = lapack,
     .vjp = {{"A",
              "grad0?, grad1?, grad2?, result0, result1, result2, A, full_matrices, compute_uv",
              fn<svd_vjp>}}},
    {.schema = "linalg_svd(Tensor A, bool full_matrices=True, *, str? driver=None) -> (Tensor U, "
               "Tensor S, Tensor Vh)",
     .decomp = [](const Tensor& a, bool full,
                  Driver driver) { return _linalg_svd(a, full, true, driver); },
     .autocast = Autocast::fp32},
    {.schema = "svd(Tensor self, bool some=True, bool compute_uv=True) -> (Tensor U, Tensor S, "
               "Tensor V)",
     .decomp =
         [](const Tensor& self, bool some, bool vectors) {
           auto [u, s, vh] = _linalg_svd(self, !some, vectors, std::nullopt);
           if (vectors) return Triple{u, s, transpose(vh, -1, -2)};
           auto unknown = [&](const SymInt& n) {
             return new_zeros(self, list_of(batch_with(self, {n, n})));
           };
           return Triple{unknown(self.size(-2)), s, unknown(self.size(-1))};
         },
     .autocast = Autocast::fp32},
    {.schema = "linalg_polar(Tensor A) -> (Tensor U, Tensor H)", .decomp = fn<polar_decomp>},
    {.schema = "linalg_matrix_sqrth(Tensor self) -> Tensor",
     .decomp =
         [](const Tensor& self) {
           auto [values, vectors] = linalg_eigh(self);
           return matmul(mul(vectors, unsqueeze(sqrt(values), -2)), mH(vectors));
         },
     .vjp = {{"self", "grad, self", fn<matrix_sqrth_vjp>}}},
    {.schema = "linalg_svdvals(Tensor A, *, str? driver=None) -> Tensor",
     .decomp = fn<svdvals>,
     .autocast = Autocast::fp32},
    {.schema = "linalg_pinv.atol_rtol_tensor(Tensor self, *, Tensor? atol=None, Tensor? rtol=None, "
               "bool hermitian=False) -> Tensor",
     .decomp = fn<pinv>,
     .vjp = {{"self", "grad, self, result", fn<pinv_vjp>}}},
    {.schema = "linalg_pinv.atol_rtol_float(Tensor self, *, float? atol=None, float? rtol=None, "
               "bool hermitian=False) -> Tensor",
     .decomp =
         [](const Tensor& self, std::optional<double> atol, std::optional<double> rtol,
            bool hermitian) {
           return linalg_pinv_atol_rtol_tensor(self, optional_number(atol), optional_number(rtol),
                                               hermitian);
         }},
    {.schema = "linalg_pinv(Tensor self, float rcond, bool hermitian=False) -> Tensor",
     .decomp =
         [](const Tensor& self, double rcond, bool hermitian) {
           return linalg_pinv_atol_rtol_tensor(self, optional_number(0.0), optional_number(rcond),
                                               hermitian);
         }},
    {.schema =
         "linalg_pinv.rcond_tensor(Tensor self, Tensor rcond, bool hermitian=False) -> Tensor",
     .decomp =
         [](const Tensor& self, const Tensor& rcond, bool hermitian) {
           return linalg_pinv_atol_rtol_tensor(self, optional_number(0.0), rcond, hermitian);
         }},
    {.schema = "pinverse(Tensor self, float rcond=1.0000000000000001e-15) -> Tensor",
     .decomp =
         [](const Tensor& self, double rcond) {
           return linalg_pinv_atol_rtol_tensor(self, optional_number(0.0), optional_number(rcond),
                                               false);
         },
     .autocast = Autocast::fp32},
    {.schema = "linalg_matrix_rank(Tensor self, float tol, bool hermitian=False) -> Tensor",
     .decomp =
         [](const Tensor& self, double tolerance, bool hermitian) {
           return matrix_rank(self, optional_number(tolerance), optional_number(0.0), hermitian);
         },
     .autocast = Autocast::fp32},
    {.schema = "linalg_matrix_rank.tol_tensor(Tensor input, Tensor tol, bool hermitian=False) -> "
               "Tensor",
     .decomp =
         [](const Tensor& input, const Tensor& tolerance, bool hermitian) {
           return matrix_rank(input, tolerance, optional_number(0.0), hermitian);
         },
     .autocast = Autocast::fp32},
    {.schema = "linalg_matrix_rank.atol_rtol_tensor(Tensor input, *, Tensor? atol=None, Tensor? "
               "rtol=None, bool hermitian=False) -> Tensor",
     .decomp = fn<matrix_rank>,
     .autocast = Autocast::fp32},
    {.schema = "linalg_matrix_rank.atol_rtol_float(Tensor self, *, float? atol=None, float? "
               "rtol=None, bool hermitian=False) -> Tensor",
     .decomp =
         [](const Tensor& self, std::optional<double> atol, std::optional<double> rtol,
            bool hermitian) {
           return matrix_rank(self, optional_number(atol), optional_number(rtol), hermitian);
         },
     .autocast = Autocast::fp32},
};

extern constinit const OpFamily op_family_linalg_orthogonal{linalg_orthogonal_rows};

}  // namespace tenon::ops
