// Systems that are not square or not general: least squares, symmetric factors, tensors as
// matrices; and how much a solution can be trusted.
#include "ops/linalg/dense.h"

#include "core/error.h"
#include "core/sym/sym_int.h"
#include "ops/linalg/dense_vjp.h"
#include "ops/linalg/product.h"
#include "ops/op.h"
#include "ops/shape_check.h"

#include <tenon/ops/index.h>
#include <tenon/ops/linalg.h>
#include <tenon/ops/pointwise.h>
#include <tenon/ops/reduce.h>
#include <tenon/ops/view.h>

#include <cmath>
#include <limits>

namespace tenon::ops {

namespace {

using Pair = std::tuple<Tensor, Tensor>;
using Driver = std::optional<std::string_view>;

// ---- least squares

// The first rows of what LAPACK makes, which has as many as the matrix has rows or columns.
TensorMeta least_squares_solution(const Tensor& a, const Tensor& b, bool vector) {
  SymInt m = a.size(-2), n = a.size(-1), right = vector ? SymInt(1) : b.size(-1);
  TensorMeta x = columns_meta(batch_with(a, {sym_max(m, n), right}), a.dtype(), a.device());
  x.sizes[x.sizes.size() - 2] = n;
  if (!vector) return x;
  x.sizes.pop_back();
  x.strides.pop_back();
  return x;
}

std::array<TensorMeta, 4> lstsq_metas(const Tensor& a, const Tensor& b, std::optional<double>,
                                      Driver driver) {
  constexpr std::string_view op = "linalg_lstsq";
  std::string_view by = driver.value_or("gelsy");
  require_matrices(op, a);
  require(by == "gels" || by == "gelsy" || by == "gelsd" || by == "gelss",
          "{}: driver must be gels, gelsy, gelsd or gelss, found '{}'", op, by);
  require_same_dtype(op, a, b);
  bool vector = is_vector_case(a, b);
  require(vector || b.dim() >= 2, "{}: shapes {} and {} do not fit", op, a.sizes(), b.sizes());
  Dims expected = batch_with(a, {a.size(-2)});
  if (!vector) expected.push_back(b.size(-1));
  require_shape(op, "b", b, list_of(expected));
  bool tall = guard_or_false(a.size(-2) > a.size(-1));
  bool by_rank = tall && (by == "gelsd" || by == "gelss");
  require(!by_rank || !(thread_modes.include & bit(Key::meta)), ErrorCode::data_dependent,
          "{}: with driver '{}' the size of the residuals depends on the rank of the matrix, which "
          "is known at run time only; use driver 'gelsy' or 'gels'",
          op, by);
  auto part = [&](bool given, Dims sizes, Dtype dtype) {
    return given ? rows_meta(sizes, dtype, a.device())
                 : contiguous_meta({SymInt(0)}, dtype, a.device());
  };
  TensorMeta residuals =
      part(tall && by != "gelsy", batch_with(a, {vector ? SymInt(1) : b.size(-1)}), a.dtype());
  residuals.defined = !by_rank;
  return {least_squares_solution(a, b, vector), std::move(residuals),
          part(by != "gels", batch_with(a, {}), Dtype::i64),
          part(by == "gelsd" || by == "gelss", batch_with(a, {smaller(a.size(-1), a.size(-2))}),
               a.dtype())};
}

// ---- symmetric matrices as L D L^T

std::array<TensorMeta, 3> ldl_metas(const Tensor& a, bool, bool) {
  require_square("linalg_ldl_factor", a);
  return {columns_meta(dims_of(a.sizes()), a.dtype(), a.device()),
          contiguous_meta(list_of(batch_with(a, {a.size(-1)})), Dtype::i32, a.device()),
          contiguous_meta(list_of(batch_with(a, {})), Dtype::i32, a.device())};
}

TensorMeta ldl_solve_meta(const Tensor& ld, const Tensor& pivots, const Tensor& b, bool) {
  constexpr std::string_view op = "linalg_ldl_solve";
  require_square(op, ld);
  require_matrices(op, b);
  require_same_dtype(op, ld, b);
  require(sizes_match(ld.size(-1), b.size(-2)), "{}: shapes {} and {} do not fit", op, ld.sizes(),
          b.sizes());
  require_shape(op, "pivots", pivots, list_of(batch_with(ld, {ld.size(-1)})));
  Dims sizes = broadcast_sizes(sizes_before(ld, 2), sizes_before(b, 2));
  sizes.push_back(b.size(-2));
  sizes.push_back(b.size(-1));
  return columns_meta(sizes, b.dtype(), b.device());
}

// ---- condition numbers

Tensor cond_by_values(const Tensor& a, bool smallest_first) {
  require_matrices("linalg_cond", a);
  Tensor s = linalg_svdvals(a), largest = select(s, -1, 0), least = select(s, -1, -1);
  return smallest_first ? div(least, largest) : div(largest, least);
}

// |A| |A^-1|; infinite for singular matrices.
template <class Norm>
Tensor cond_by_inverse(const Tensor& a, Norm norm) {
  require_square("linalg_cond", a);
  auto [inverse, info] = linalg_inv_ex(a);
  Tensor broken = unsqueeze(unsqueeze(ne(info, 0), -1), -1);
  double infinity = std::numeric_limits<double>::infinity();
  return mul(norm(a), norm(masked_fill(inverse, broken, infinity)));
}

Tensor cond_decomp(const Tensor& a, std::optional<Number> order) {
  double p = order ? order->to_double() : 2;
  if (std::fabs(p) == 2) return cond_by_values(a, p < 0);
  return cond_by_inverse(a, [&](const Tensor& t) {
    return linalg_matrix_norm(t, *order, IntList{-2, -1});
  });
}

Tensor cond_by_name(const Tensor& a, std::string_view order) {
  if (order == "nuc") {
    Tensor s = linalg_svdvals(a);
    return mul(sum(s, {-1}), sum(reciprocal(s), {-1}));
  }
  return cond_by_inverse(a, [&](const Tensor& t) {
    return linalg_matrix_norm(t, order, IntList{-2, -1});
  });
}

// ---- tensors as matrices

SymInt product_of(SymIntList sizes, int64_t first, int64_t last) {
  SymInt n = 1;
  for (int64_t d = first; d < last; ++d) n = n * sizes[static_cast<size_t>(d)];
  return n;
}

Tensor tensorinv_decomp(const Tensor& self, int64_t first) {
  require(first > 0 && first <= self.dim(),
          "linalg_tensorinv: ind must be between 1 and {}, found {}", self.dim(), first);
  SymInt rows = product_of(self.sizes(), 0, first),
         columns = product_of(self.sizes(), first, self.dim());
  require(sizes_match(rows, columns),
          "linalg_tensorinv: the sizes before and from dimension {} must have one product, found "
          "{} and {}",
          first, rows, columns);
  Dims sizes;
  for (int64_t d = 0; d < self.dim(); ++d) sizes.push_back(self.size((d + first) % self.dim()));
  return reshape(linalg_inv(reshape(self, {rows, columns})), list_of(sizes));
}

Tensor tensorsolve_decomp(const Tensor& self, const Tensor& other, OptIntList dims) {
  Tensor a = self;
  if (dims) {
    std::vector<int64_t> to;
    for (size_t i = 0; i < dims->size(); ++i)
      to.push_back(self.dim() - static_cast<int64_t>(dims->size() - i));
    a = movedim(self, *dims, to);
  }
  require(a.dim() >= other.dim(),
          "linalg_tensorsolve: shapes {} and {} do not fit: the first has fewer dimensions",
          self.sizes(), other.sizes());
  SymInt rows = product_of(a.sizes(), 0, other.dim()),
         columns = product_of(a.sizes(), other.dim(), a.dim());
  require(sizes_match(rows, columns),
          "linalg_tensorsolve: shape {} is not a square matrix over {} dimensions of rows",
          a.sizes(), other.dim());
  Dims sizes;
  for (int64_t d = other.dim(); d < a.dim(); ++d) sizes.push_back(a.size(d));
  Tensor x = linalg_solve(reshape(a, {rows, columns}), reshape(other, {rows}));
  return reshape(x, list_of(sizes));
}

// LAPACK's codes of a factorisation or an iteration, one a matrix.
void check_infos(const Tensor& info, std::string_view api_name, bool is_matrix) {
  Tensor codes = info.to(Dtype::i64).flatten();
  for (int64_t i = 0; i < codes.numel().guard_int(); ++i) {
    int64_t code = item(codes.select(0, i)).to_int();
    std::string place = is_matrix ? "" : message("(batch element {}): ", i);
    require(code == 0,
            "{}: {}the matrix is singular or not positive-definite, or the algorithm did not "
            "converge (LAPACK's error code: {})",
            api_name, place, code);
  }
}

}  // namespace

static constexpr OpDef linalg_systems_rows[] = {
    {.schema = "linalg_lstsq(Tensor self, Tensor b, float? rcond=None, *, str? driver=None) -> "
               "(Tensor solution, Tensor residuals, Tensor rank, Tensor singular_values)",
     .meta = fn<lstsq_metas>,
     .provider = lapack,
     .vjp = {{"self, b", "grad0, self, b", fn<lstsq_vjp>}},
     .autocast = Autocast::fp32},
    {.schema = "linalg_ldl_factor_ex(Tensor self, *, bool hermitian=False, bool "
               "check_errors=False) -> (Tensor LD, Tensor pivots, Tensor info)",
     .meta = fn<ldl_metas>,
     .provider = lapack},
    {.schema = "linalg_ldl_factor(Tensor self, *, bool hermitian=False) -> (Tensor LD, Tensor "
               "pivots)",
     .decomp =
         [](const Tensor& self, bool hermitian) {
           auto [ld, pivots, info] = linalg_ldl_factor_ex(self, hermitian, true);
           return Pair{ld, pivots};
         }},
    {.schema = "linalg_ldl_solve(Tensor LD, Tensor pivots, Tensor B, *, bool hermitian=False) -> "
               "Tensor",
     .meta = fn<ldl_solve_meta>,
     .provider = lapack},
    {.schema = "_linalg_check_errors(Tensor info, str api_name, *, bool is_matrix) -> ()",
     .tags = OpTags::side_effect | OpTags::any_device,
     .meta = [](const Tensor&, std::string_view, bool) {},
     .eager = fn<check_infos>},
    {.schema = "linalg_cond(Tensor self, Scalar? p=None) -> Tensor",
     .decomp = fn<cond_decomp>,
     .autocast = Autocast::fp32},
    {.schema = "linalg_cond.p_str(Tensor self, str p) -> Tensor",
     .decomp = fn<cond_by_name>,
     .autocast = Autocast::fp32},
    {.schema = "linalg_tensorinv(Tensor self, int ind=2) -> Tensor",
     .decomp = fn<tensorinv_decomp>,
     .autocast = Autocast::fp32},
    {.schema = "linalg_tensorsolve(Tensor self, Tensor other, int[]? dims=None) -> Tensor",
     .decomp = fn<tensorsolve_decomp>,
     .autocast = Autocast::fp32},
};

extern constinit const OpFamily op_family_linalg_systems{linalg_systems_rows};

}  // namespace tenon::ops
