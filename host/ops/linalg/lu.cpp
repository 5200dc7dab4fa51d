// Factorisation into triangles with partial pivoting, and what follows from it: determinants,
// inverses, solutions.
#include "ops/linalg/dense.h"

#include "core/sym_int.h"
#include "ops/linalg/dense_vjp.h"
#include "ops/op.h"
#include "ops/shape_check.h"

#include <tenon/ops.h>

#include <cmath>

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

struct Factored {
  Matrices lu;
  std::vector<int64_t> pivots, broken;
  int64_t n = 0;  // pivots of one matrix
  const int64_t* pivots_at(int64_t i) const { return pivots.data() + i * n; }
};

Factored factored(const Tensor& a, bool pivot) {
  Factored f{matrices_of(a), {}, {}, 0};
  f.n = std::min(f.lu.rows, f.lu.cols);
  f.pivots.resize(static_cast<size_t>(f.lu.count * f.n));
  for (int64_t i = 0; i < f.lu.count; ++i)
    f.broken.push_back(
        factor_lu(f.lu.at(i), f.lu.rows, f.lu.cols, f.pivots.data() + i * f.n, pivot));
  return f;
}

template <class T>
std::vector<double> as_doubles(const std::vector<T>& values) {
  return {values.begin(), values.end()};
}

void check_broken(std::string_view op, const std::vector<int64_t>& broken) {
  for (size_t i = 0; i < broken.size(); ++i)
    require(broken[i] == 0, "{}: matrix {} of the batch is singular: pivot {} is zero", op, i,
            broken[i]);
}

void lu_kernel(Tensor& lu, Tensor& pivots, Tensor& info, const Tensor& a, bool pivot,
               bool check_errors) {
  Factored f = factored(a, pivot);
  if (check_errors) check_broken("linalg_lu_factor", f.broken);
  store(lu, f.lu);
  store(pivots, as_doubles(f.pivots));
  store(info, as_doubles(f.broken));
}

// Rows that change places count from 1.
void check_pivots(std::string_view op, const int64_t* pivots, int64_t n, int64_t rows) {
  for (int64_t i = 0; i < n; ++i)
    require(pivots[i] >= 1 && pivots[i] <= rows,
            "{}: pivot {} is out of range for matrices of {} rows; they count from 1", op,
            pivots[i], rows);
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

void unpack_kernel(Tensor& p, Tensor& l, Tensor& u, const Tensor& lu, const Tensor& pivots,
                   bool data, bool with_pivots) {
  Matrices all = matrices_of(lu);
  int64_t k = std::min(all.rows, all.cols);
  Tensor steps = contiguous_of(converted(pivots, Dtype::i64));
  if (with_pivots) check_pivots("lu_unpack", data_of<int64_t>(steps), numel_of(steps), all.rows);
  Matrices order = zero_matrices(all.count, all.rows, all.rows),
           low = zero_matrices(all.count, all.rows, k), up = zero_matrices(all.count, k, all.cols);
  for (int64_t i = 0; i < all.count; ++i) {
    std::vector<int64_t> row(static_cast<size_t>(all.rows));
    for (size_t r = 0; r < row.size(); ++r) row[r] = static_cast<int64_t>(r);
    for (int64_t s = 0; with_pivots && s < k; ++s)
      std::swap(row[static_cast<size_t>(s)],
                row[static_cast<size_t>(data_of<int64_t>(steps)[i * k + s] - 1)]);
    for (int64_t r = 0; r < all.rows; ++r) {
      order.at(i)[row[static_cast<size_t>(r)] * all.rows + r] = 1;
      for (int64_t c = 0; c < all.cols; ++c) {
        double x = all.at(i)[r * all.cols + c];
        if (c < std::min(r, k)) low.at(i)[r * k + c] = x;
        if (c == r && r < k) low.at(i)[r * k + c] = 1;
        if (c >= r && r < k) up.at(i)[r * all.cols + c] = x;
      }
    }
  }
  if (with_pivots) store(p, order);
  if (data) store(l, low), store(u, up);
}

// ---- solutions from LU

struct System {
  Tensor a, b;
};

// Batch dimensions of both broadcast together.
System common_batch(const Tensor& a, const Tensor& b) {
  Dims batch = broadcast_sizes(sizes_before(a, 2), sizes_before(b, 2));
  auto spread = [&](const Tensor& t) {
    Dims sizes = batch;
    sizes.push_back(t.size(-2));
    sizes.push_back(t.size(-1));
    return expand(t, list_of(sizes));
  };
  return {spread(a), spread(b)};
}

TensorMeta lu_solve_meta(const Tensor& lu, const Tensor&, const Tensor& b, bool left, bool) {
  require_square("linalg_lu_solve", lu);
  require_matrices("linalg_lu_solve", b);
  require(sizes_match(lu.size(-1), left ? b.size(-2) : b.size(-1)),
          "linalg_lu_solve: shapes {} and {} do not fit", lu.sizes(), b.sizes());
  System s = common_batch(lu, b);
  Dims sizes = dims_of(s.b.sizes());
  return left ? columns_meta(sizes, b.dtype(), b.device())
              : rows_meta(sizes, b.dtype(), b.device());
}

void lu_solve_kernel(Tensor& out, const Tensor& lu, const Tensor& pivots, const Tensor& b,
                     bool left, bool adjoint) {
  System s = common_batch(lu, b);
  Matrices a = matrices_of(s.a), x = matrices_of(left ? s.b : transpose(s.b, -1, -2));
  Dims steps_sizes = dims_of(sizes_before(s.a, 1));
  Tensor steps = contiguous_of(converted(expand(pivots, list_of(steps_sizes)), Dtype::i64));
  check_pivots("linalg_lu_solve", data_of<int64_t>(steps), numel_of(steps), a.rows);
  for (int64_t i = 0; i < a.count; ++i)
    solve_lu(a.at(i), data_of<int64_t>(steps) + i * a.rows, a.rows, x.at(i), x.cols,
             left == adjoint);
  store(left ? out : transpose(out, -1, -2), x);
}

// ---- linear systems

bool is_vector_case(const Tensor& a, const Tensor& b) {
  if (b.dim() == 1) return true;
  if (a.dim() - 1 != b.dim()) return false;
  for (int64_t d = 0; d < b.dim(); ++d)
    if (!sizes_match(a.size(d), b.size(d))) return false;
  return true;
}

std::array<TensorMeta, 4> solve_metas(const Tensor& a, const Tensor& b, bool left, bool) {
  require_square("linalg_solve", a);
  bool vector = is_vector_case(a, b);
  Tensor columns = vector ? unsqueeze(b, -1) : b;
  TensorMeta x = lu_solve_meta(a, a, columns, left, false);
  x.strides = columns_meta(x.sizes, x.dtype, x.device).strides;
  if (vector) {
    x.sizes.pop_back();
    x.strides = contiguous_strides(list_of(x.sizes));
  }
  std::array<TensorMeta, 3> lu = lu_metas(a);
  return {std::move(x), lu[0], lu[1], lu[2]};
}

void solve_kernel(Tensor& x, Tensor& lu, Tensor& pivots, Tensor& info, const Tensor& a,
                  const Tensor& b, bool left, bool check_errors) {
  lu_kernel(lu, pivots, info, a, true, check_errors);
  bool vector = is_vector_case(a, b);
  Tensor to = vector ? unsqueeze(x, -1) : x;
  lu_solve_kernel(to, lu, pivots, vector ? unsqueeze(b, -1) : b, left, false);
}

using Pair = std::tuple<Tensor, Tensor>;

Pair inverse_parts(const Tensor& a, bool check_errors) {
  require_square("linalg_inv", a);
  Tensor one = expand(eye(a.size(-1), a.dtype()), a.sizes());
  auto [inverse, lu, pivots, info] = _linalg_solve_ex(a, one, true, check_errors);
  return {inverse, info};
}

// ---- determinants

struct Determinant {
  double sign = 1, log_size = 0;
};

Determinant determinant_of(const Factored& f, int64_t i) {
  Determinant d;
  for (int64_t k = 0; k < f.n; ++k) {
    double x = f.lu.at(i)[k * f.n + k];
    if (f.pivots_at(i)[k] != k + 1) d.sign = -d.sign;
    d.sign *= x > 0 ? 1 : x < 0 ? -1 : x;
    d.log_size += std::log(std::fabs(x));
  }
  return d;
}

std::array<TensorMeta, 4> slogdet_metas(const Tensor& a) {
  require_square("linalg_slogdet", a);
  TensorMeta number = contiguous_meta(list_of(batch_with(a, {})), a.dtype(), a.device());
  std::array<TensorMeta, 3> lu = lu_metas(a);
  return {number, number, lu[0], lu[1]};
}

void slogdet_kernel(Tensor& sign, Tensor& size, Tensor& lu, Tensor& pivots, const Tensor& a) {
  Factored f = factored(a, true);
  std::vector<double> signs, sizes;
  for (int64_t i = 0; i < f.lu.count; ++i) {
    Determinant d = determinant_of(f, i);
    signs.push_back(d.sign);
    sizes.push_back(d.log_size);
  }
  store(sign, signs);
  store(size, sizes);
  store(lu, f.lu);
  store(pivots, as_doubles(f.pivots));
}

void det_kernel(Tensor& out, Tensor& lu, Tensor& pivots, const Tensor& a) {
  Factored f = factored(a, true);
  std::vector<double> values;
  for (int64_t i = 0; i < f.lu.count; ++i) {
    double product = 1;
    for (int64_t k = 0; k < f.n; ++k)
      product *= f.lu.at(i)[k * f.n + k] * (f.pivots_at(i)[k] == k + 1 ? 1 : -1);
    values.push_back(product);
  }
  store(out, values);
  store(lu, f.lu);
  store(pivots, as_doubles(f.pivots));
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

static constexpr OpDef rows[] = {
    {.schema = "linalg_lu_factor_ex(Tensor A, *, bool pivot=True, bool check_errors=False) -> "
               "(Tensor LU, Tensor pivots, Tensor info)",
     .meta = [](const Tensor& a, bool, bool) { return lu_metas(a); },
     .eager = fn<lu_kernel>,
     .vjp = {{"A", "grad0, result0, result1, pivot", fn<lu_factor_vjp>}}},
    {.schema = "_lu_with_info(Tensor self, bool pivot=True, bool check_errors=True) -> (Tensor LU, "
               "Tensor pivots, Tensor info)",
     .meta = [](const Tensor& a, bool, bool) { return lu_metas(a); },
     .eager = fn<lu_kernel>,
     .vjp = {{"self", "grad0, result0, result1, pivot", fn<lu_factor_vjp>}}},
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
     .vjp = {{"LU_data", "grad1?, grad2?, LU_data.sizes", fn<lu_unpack_vjp>}}},
    {.schema = "linalg_lu(Tensor A, *, bool pivot=True) -> (Tensor P, Tensor L, Tensor U)",
     .decomp =
         [](const Tensor& a, bool pivot) {
           auto [lu, pivots, info] = linalg_lu_factor_ex(a, pivot, false);
           return lu_unpack(lu, pivots, true, true);
         }},
    {.schema = "linalg_lu_solve(Tensor LU, Tensor pivots, Tensor B, *, bool left=True, bool "
               "adjoint=False) -> Tensor",
     .meta = fn<lu_solve_meta>,
     .eager = fn<lu_solve_kernel>,
     .vjp = {{"LU, B", "grad, result, LU, pivots, left, adjoint, needs", fn<lu_solve_vjp>}}},
    {.schema = "lu_solve(Tensor self, Tensor LU_data, Tensor LU_pivots) -> Tensor",
     .decomp = [](const Tensor& self, const Tensor& lu,
                  const Tensor& pivots) { return linalg_lu_solve(lu, pivots, self, true, false); }},
    {.schema = "_linalg_solve_ex(Tensor A, Tensor B, *, bool left=True, bool check_errors=False) "
               "-> (Tensor result, Tensor LU, Tensor pivots, Tensor info)",
     .meta = fn<solve_metas>,
     .eager = fn<solve_kernel>,
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
                  bool left) { return std::get<0>(_linalg_solve_ex(a, b, left, true)); }},
    {.schema = "linalg_inv_ex(Tensor A, *, bool check_errors=False) -> (Tensor inverse, Tensor "
               "info)",
     .decomp = fn<inverse_parts>},
    {.schema = "linalg_inv(Tensor A) -> Tensor", .decomp = fn<inv_decomp>},
    {.schema = "inverse(Tensor self) -> Tensor", .decomp = fn<inv_decomp>},
    {.schema = "_linalg_slogdet(Tensor A) -> (Tensor sign, Tensor logabsdet, Tensor LU, Tensor "
               "pivots)",
     .meta = fn<slogdet_metas>,
     .eager = fn<slogdet_kernel>,
     .vjp = {{"A", "grad0?, grad1?, A",
              [](const Tensor&, const Tensor& g, const Tensor& a) {
                if (!g.defined()) return a.zeros_like();  // the sign is constant around A
                return g.unsqueeze(-1).unsqueeze(-1).mul(linalg_inv(a).mT());
              }}}},
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
     .eager = fn<det_kernel>,
     .vjp = {{"A", "grad0, A, result0", fn<det_vjp>}}},
    {.schema = "linalg_det(Tensor A) -> Tensor", .decomp = fn<det_decomp>},
    {.schema = "det(Tensor self) -> Tensor", .decomp = fn<det_decomp>},
};

extern constinit const OpFamily op_family_linalg_lu{rows};

}  // namespace tenon::ops
