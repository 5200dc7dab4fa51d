// Factorisation into triangles with partial pivoting, and what follows from it: determinants,
// inverses, solutions.
#include "ops/linalg/dense.h"

#include "core/sym/sym_int.h"
#include "ops/kernel_loops.h"
#include "ops/linalg/dense_vjp.h"
#include "ops/linalg/product.h"
#include "ops/op.h"
#include "ops/shape_check.h"

#include <tenon/ops/create.h>
#include <tenon/ops/linalg.h>
#include <tenon/ops/pointwise.h>
#include <tenon/ops/view.h>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace tenon::ops {

namespace {

// ---- LU

TensorMeta whole_meta(Dims sizes, Device device) {
  return contiguous_meta(list_of(sizes), Dtype::i32, device);
}

std::array<TensorMeta, 3> lu_metas(const Tensor& a) {
  require_matrices("linalg_lu_factor", a);
  return {columns_meta(dims_of(a.sizes()), a.dtype(), a.device()),
          whole_meta(batch_with(a, {smaller(a.size(-1), a.size(-2))}), a.device()),
          whole_meta(batch_with(a, {}), a.device())};
}

// ---- P, L and U from their packed form

std::array<TensorMeta, 3> unpack_metas(const Tensor& lu, const Tensor& steps, bool data,
                                       bool pivots) {
  require_matrices("lu_unpack", lu);
  SymInt m = lu.size(-2), n = lu.size(-1), k = smaller(m, n);
  if (pivots) require_shape("lu_unpack", "LU_pivots", steps, list_of(batch_with(lu, {k})));
  auto part = [&](SymInt rows, SymInt cols, bool wanted) {
    return wanted ? rows_meta(batch_with(lu, {rows, cols}), lu.dtype(), lu.device())
                  : contiguous_meta({SymInt(0)}, lu.dtype(), lu.device());
  };
  return {part(m, m, pivots), part(m, k, data), part(k, n, data)};
}

// The order of rows after the exchanges of one matrix, counted from 1.
void exchange(int64_t* order, int64_t rows, const int64_t* pivots, int64_t n) {
  std::iota(order, order + rows, int64_t{0});
  for (int64_t i = 0; i < n; ++i) {
    require(pivots[i] >= 1 && pivots[i] <= rows,
            "lu_unpack: pivot {} is out of range for matrices of {} rows; they count from 1",
            pivots[i], rows);
    std::swap(order[i], order[pivots[i] - 1]);
  }
}

Tensor row_order(const Tensor& lu, const Tensor& pivots) {
  Tensor order = make_tensor(contiguous_meta(list_of(batch_with(lu, {lu.size(-2)})), Dtype::i64));
  Tensor steps = contiguous_of(converted(pivots, Dtype::i64));
  int64_t rows = lu.size(-2), n = std::min<int64_t>(rows, lu.size(-1));
  for (int64_t i = 0; rows > 0 && i < numel_of(order) / rows; ++i)
    exchange(data_of<int64_t>(order) + i * rows, rows, data_of<int64_t>(steps) + i * n, n);
  return order;
}

void unpack_kernel(Tensor& p, Tensor& l, Tensor& u, const Tensor& lu, const Tensor& pivots,
                   bool data, bool with_pivots) {
  SymInt k = smaller(lu.size(-2), lu.size(-1));
  if (with_pivots) {
    Tensor numbers = arange(Number(lu.size(-2)), Dtype::i64);
    copy_elements(p, eq(unsqueeze(numbers, -1), unsqueeze(row_order(lu, pivots), -2)));
  }
  if (!data) return;
  copy_elements(l, tril(narrow(lu, -1, 0, k), -1));
  fill_elements(diagonal(l, 0, -2, -1), 1);
  copy_elements(u, triu(narrow(lu, -2, 0, k)));
}

// ---- solutions from LU

TensorMeta solution_meta(std::string_view op, const Tensor& lu, const Tensor& b, bool left) {
  require_square(op, lu);
  require_matrices(op, b);
  require(sizes_match(lu.size(-1), left ? b.size(-2) : b.size(-1)),
          "{}: shapes {} and {} do not fit", op, lu.sizes(), b.sizes());
  require_same_dtype(op, lu, b);
  Dims sizes = broadcast_sizes(sizes_before(lu, 2), sizes_before(b, 2));
  sizes.push_back(b.size(-2));
  sizes.push_back(b.size(-1));
  return left ? columns_meta(sizes, b.dtype(), b.device())
              : rows_meta(sizes, b.dtype(), b.device());
}

TensorMeta lu_solve_meta(const Tensor& lu, const Tensor& pivots, const Tensor& b, bool left, bool) {
  require_square("linalg_lu_solve", lu);
  require_shape("linalg_lu_solve", "pivots", pivots, list_of(batch_with(lu, {lu.size(-1)})));
  return solution_meta("linalg_lu_solve", lu, b, left);
}

// ---- linear systems

std::array<TensorMeta, 4> solve_metas(const Tensor& a, const Tensor& b, bool left, bool) {
  require_square("linalg_solve", a);
  bool vector = is_vector_case(a, b);
  Tensor columns = vector ? unsqueeze(b, -1) : b;
  TensorMeta x = solution_meta("linalg_solve", a, columns, left);
  if (vector) {  // ATen lays the vectors out as it would a matrix
    x.sizes.pop_back();
    x.strides = x.sizes.size() < 2 ? contiguous_strides(list_of(x.sizes))
                                   : columns_meta(x.sizes, x.dtype, x.device).strides;
  }
  std::array<TensorMeta, 3> lu = lu_metas(a);
  return {std::move(x), lu[0], lu[1], lu[2]};
}

using Pair = std::tuple<Tensor, Tensor>;

Pair inverse_parts(const Tensor& a, bool check_errors) {
  require_square("linalg_inv", a);
  Tensor one = expand(eye(a.size(-1), a.dtype(), std::nullopt, a.device()), a.sizes());
  auto [inverse, lu, pivots, info] = _linalg_solve_ex(a, one, true, check_errors);
  return {inverse, info};
}

// ---- determinants

std::array<TensorMeta, 4> slogdet_metas(const Tensor& a) {
  require_square("linalg_slogdet", a);
  TensorMeta number = contiguous_meta(list_of(batch_with(a, {})), a.dtype(), a.device());
  std::array<TensorMeta, 3> lu = lu_metas(a);
  return {number, number, lu[0], lu[1]};
}

Pair slogdet_decomp(const Tensor& a) {
  auto [sign, size, lu, pivots] = _linalg_slogdet(a);
  return {sign, size};
}

Tensor logdet_decomp(const Tensor& a) {
  auto [sign, size] = slogdet_decomp(a);
  return where(lt(sign, 0), full_like(size, std::nan("")), size);
}

Tensor det_decomp(const Tensor& a) { return std::get<0>(_linalg_det(a)); }
Tensor inv_decomp(const Tensor& a) { return std::get<0>(inverse_parts(a, true)); }

}  // namespace

static constexpr OpDef linalg_lu_rows[] = {
    {.schema = "linalg_lu_factor_ex(Tensor A, *, bool pivot=True, bool check_errors=False) -> "
               "(Tensor LU, Tensor pivots, Tensor info)",
     .meta = [](const Tensor& a, bool, bool) { return lu_metas(a); },
     .provider = lapack,
     .vjp = {{"A", "grad0, result0, result1, pivot", fn<lu_factor_vjp>}}},
    {.schema = "_lu_with_info(Tensor self, bool pivot=True, bool check_errors=True) -> (Tensor LU, "
               "Tensor pivots, Tensor info)",
     .meta = [](const Tensor& a, bool, bool) { return lu_metas(a); },
     .provider = lapack,
     .vjp = {{"self", "grad0, result0, result1, pivot", fn<lu_factor_vjp>}},
     .autocast = Autocast::fp32},
    {.schema = "linalg_lu_factor(Tensor A, *, bool pivot=True) -> (Tensor LU, Tensor pivots)",
     .decomp =
         [](const Tensor& a, bool pivot) {
           auto [lu, pivots, info] = linalg_lu_factor_ex(a, pivot, false);
           return Pair{lu, pivots};
         }},
    {.schema = "lu_unpack(Tensor LU_data, Tensor LU_pivots, bool unpack_data=True, bool "
               "unpack_pivots=True) -> (Tensor P, Tensor L, Tensor U)",
     .meta = fn<unpack_metas>,
     .eager = fn<unpack_kernel>,
     .vjp = {{"LU_data", "grad1?, grad2?, LU_data.sizes", fn<lu_unpack_vjp>}},
     .linear = Without{"L has ones on its diagonal"}},
    {.schema = "linalg_lu(Tensor A, *, bool pivot=True) -> (Tensor P, Tensor L, Tensor U)",
     .decomp =
         [](const Tensor& a, bool pivot) {
           auto [lu, pivots, info] = linalg_lu_factor_ex(a, pivot, false);
           return lu_unpack(lu, pivots, true, true);
         }},
    {.schema = "linalg_lu_solve(Tensor LU, Tensor pivots, Tensor B, *, bool left=True, bool "
               "adjoint=False) -> Tensor",
     .meta = fn<lu_solve_meta>,
     .provider = lapack,
     .vjp = {{"LU, B", "grad, result, LU, pivots, left, adjoint, needs", fn<lu_solve_vjp>}}},
    {.schema = "lu_solve(Tensor self, Tensor LU_data, Tensor LU_pivots) -> Tensor",
     .decomp = [](const Tensor& self, const Tensor& lu,
                  const Tensor& pivots) { return linalg_lu_solve(lu, pivots, self, true, false); },
     .autocast = Autocast::fp32},
    {.schema = "_linalg_solve_ex(Tensor A, Tensor B, *, bool left=True, bool check_errors=False) "
               "-> (Tensor result, Tensor LU, Tensor pivots, Tensor info)",
     .meta = fn<solve_metas>,
     .provider = lapack,
     .vjp = {{"A, B", "grad0, A, result0, left, needs", fn<solve_ex_vjp>}}},
    {.schema = "linalg_solve_ex(Tensor A, Tensor B, *, bool left=True, bool check_errors=False) -> "
               "(Tensor result, Tensor info)",
     .decomp =
         [](const Tensor& a, const Tensor& b, bool left, bool check_errors) {
           auto [x, lu, pivots, info] = _linalg_solve_ex(a, b, left, check_errors);
           return Pair{x, info};
         }},
    {.schema = "linalg_solve(Tensor A, Tensor B, *, bool left=True) -> Tensor",
     .decomp = [](const Tensor& a, const Tensor& b,
                  bool left) { return std::get<0>(_linalg_solve_ex(a, b, left, true)); },
     .autocast = Autocast::fp32},
    {.schema = "linalg_inv_ex(Tensor A, *, bool check_errors=False) -> (Tensor inverse, Tensor "
               "info)",
     .decomp = fn<inverse_parts>,
     .autocast = Autocast::fp32},
    {.schema = "linalg_inv(Tensor A) -> Tensor",
     .decomp = fn<inv_decomp>,
     .autocast = Autocast::fp32},
    {.schema = "inverse(Tensor self) -> Tensor",
     .decomp = fn<inv_decomp>,
     .autocast = Autocast::fp32},
    {.schema = "_linalg_slogdet(Tensor A) -> (Tensor sign, Tensor logabsdet, Tensor LU, Tensor "
               "pivots)",
     .meta = fn<slogdet_metas>,
     .provider = lapack,
     .vjp = {{"A", "grad0?, grad1?, A",
              [](const Tensor&, const Tensor& g, const Tensor& a) { return slogdet_vjp(g, a); }}}},
    {.schema = "linalg_slogdet(Tensor A) -> (Tensor sign, Tensor logabsdet)",
     .decomp = fn<slogdet_decomp>},
    {.schema = "slogdet(Tensor self) -> (Tensor sign, Tensor logabsdet)",
     .decomp = fn<slogdet_decomp>},
    {.schema = "logdet(Tensor self) -> Tensor", .decomp = fn<logdet_decomp>},
    {.schema = "_linalg_det(Tensor A) -> (Tensor result, Tensor LU, Tensor pivots)",
     .meta =
         [](const Tensor& a) {
           std::array<TensorMeta, 4> m = slogdet_metas(a);
           return std::array<TensorMeta, 3>{m[0], m[2], m[3]};
         },
     .provider = lapack,
     .vjp = {{"A", "grad0, A", fn<det_vjp>}}},
    {.schema = "linalg_det(Tensor A) -> Tensor", .decomp = fn<det_decomp>},
    {.schema = "det(Tensor self) -> Tensor", .decomp = fn<det_decomp>},
};

extern constinit const OpFamily op_family_linalg_lu{linalg_lu_rows};

}  // namespace tenon::ops
