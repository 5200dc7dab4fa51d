// Factorisations with orthogonal matrices: QR, symmetric eigenvalues, singular values.
//
// Method: QR by Householder's reflections, packed as LAPACK packs them. Eigenvalues of symmetric
//   matrices by Jacobi's cyclic rotations. Singular values by Hestenes' one-sided rotations of the
//   columns of A (or of its transpose, where that is taller), which end as U * S.
// Cost: O(n^3) for QR; some ten sweeps of O(n^3) for the others. All in f64.
// Source: Golub and Van Loan, Matrix Computations, chapters 5 and 8.
#include "ops/linalg/dense.h"

#include "core/sym_int.h"
#include "ops/op.h"
#include "ops/shape_check.h"

#include <tenon/ops.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace tenon::ops {

namespace {

using Pair = std::tuple<Tensor, Tensor>;
using Triple = std::tuple<Tensor, Tensor, Tensor>;
using Driver = std::optional<std::string_view>;

// ---- QR

// In place: R on and above the diagonal, the reflections' vectors below it (their 1 left out).
void factor_qr(double* a, int64_t rows, int64_t cols, double* tau) {
  for (int64_t k = 0; k < std::min(rows, cols); ++k) {
    double tail = 0, head = a[k * cols + k];
    for (int64_t i = k + 1; i < rows; ++i) tail += a[i * cols + k] * a[i * cols + k];
    tau[k] = 0;
    if (tail == 0) continue;
    double beta = -std::copysign(std::sqrt(head * head + tail), head);
    tau[k] = (beta - head) / beta;
    for (int64_t i = k + 1; i < rows; ++i) a[i * cols + k] /= head - beta;
    a[k * cols + k] = beta;
    for (int64_t j = k + 1; j < cols; ++j) {
      double dot = a[k * cols + j];
      for (int64_t i = k + 1; i < rows; ++i) dot += a[i * cols + k] * a[i * cols + j];
      a[k * cols + j] -= tau[k] * dot;
      for (int64_t i = k + 1; i < rows; ++i) a[i * cols + j] -= tau[k] * dot * a[i * cols + k];
    }
  }
}

// x := H x for the reflection in column k of the packed form; x has `cols` columns.
void reflect(const double* packed, int64_t width, int64_t k, double tau, double* x, int64_t rows,
             int64_t cols) {
  for (int64_t j = 0; j < cols; ++j) {
    double dot = x[k * cols + j];
    for (int64_t i = k + 1; i < rows; ++i) dot += packed[i * width + k] * x[i * cols + j];
    x[k * cols + j] -= tau * dot;
    for (int64_t i = k + 1; i < rows; ++i) x[i * cols + j] -= tau * dot * packed[i * width + k];
  }
}

// x := Q x, or its transpose's product.
void apply_q(const double* packed, int64_t width, const double* tau, int64_t n_tau, double* x,
             int64_t rows, int64_t cols, bool transposed) {
  for (int64_t step = 0; step < n_tau; ++step) {
    int64_t k = transposed ? step : n_tau - 1 - step;
    reflect(packed, width, k, tau[k], x, rows, cols);
  }
}

std::array<TensorMeta, 2> geqrf_metas(const Tensor& self) {
  require_matrices("geqrf", self);
  return {columns_meta(dims_of(self.sizes()), self.dtype(), self.device()),
          rows_meta(batch_with(self, {smaller(self.size(-1), self.size(-2))}), self.dtype(),
                    self.device())};
}

struct Reflections {
  Matrices packed;
  std::vector<double> tau;
  int64_t n = 0;
  const double* tau_at(int64_t i) const { return tau.data() + i * n; }
};

Reflections reflections_of(const Tensor& a) {
  Reflections r{matrices_of(a), {}, 0};
  r.n = std::min(r.packed.rows, r.packed.cols);
  r.tau.resize(static_cast<size_t>(r.packed.count * r.n));
  for (int64_t i = 0; i < r.packed.count; ++i)
    factor_qr(r.packed.at(i), r.packed.rows, r.packed.cols, r.tau.data() + i * r.n);
  return r;
}

void geqrf_kernel(Tensor& a, Tensor& tau, const Tensor& self) {
  Reflections r = reflections_of(self);
  store(a, r.packed);
  store(tau, r.tau);
}

// The first columns of Q.
Matrices columns_of_q(const Reflections& r, int64_t n_columns) {
  Matrices q = zero_matrices(r.packed.count, r.packed.rows, n_columns);
  for (int64_t i = 0; i < q.count; ++i) {
    for (int64_t k = 0; k < std::min(q.rows, q.cols); ++k) q.at(i)[k * q.cols + k] = 1;
    apply_q(r.packed.at(i), r.packed.cols, r.tau_at(i), r.n, q.at(i), q.rows, q.cols, false);
  }
  return q;
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

void qr_kernel(Tensor& q, Tensor& r, const Tensor& a, std::string_view mode) {
  Reflections found = reflections_of(a);
  const Matrices& packed = found.packed;
  int64_t k = mode == "complete" ? packed.rows : found.n;
  if (mode != "r") store(q, columns_of_q(found, k));
  Matrices upper = zero_matrices(packed.count, k, packed.cols);
  for (int64_t i = 0; i < packed.count; ++i)
    for (int64_t row = 0; row < std::min(k, found.n); ++row)
      for (int64_t c = row; c < packed.cols; ++c)
        upper.at(i)[row * packed.cols + c] = packed.at(i)[row * packed.cols + c];
  store(r, upper);
}

Reflections packed_reflections(const Tensor& packed, const Tensor& tau) {
  Reflections r{matrices_of(packed), {}, 0};
  Tensor wide = contiguous_of(converted(tau, Dtype::f64));
  r.n = sizes_of(wide).back();
  r.tau.assign(data_of<double>(wide), data_of<double>(wide) + numel_of(wide));
  return r;
}

// At most as many reflections as `packed` has rows and columns, in vectors of the same batch.
void check_reflections(std::string_view op, const Tensor& packed, const Tensor& tau) {
  require_matrices(op, packed);
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

void product_kernel(Tensor& out, const Tensor& packed, const Tensor& tau) {
  Reflections r = packed_reflections(packed, tau);
  store(out, columns_of_q(r, r.packed.cols));
}

TensorMeta ormqr_meta(const Tensor& packed, const Tensor& tau, const Tensor& other, bool left,
                      bool) {
  check_reflections("ormqr", packed, tau);
  require_matrices("ormqr", other);
  Dims sizes = batch_with(packed, {other.size(-2), other.size(-1)});
  sizes[sizes.size() - (left ? 2 : 1)] = packed.size(-2);
  require_shape("ormqr", "other", other, list_of(sizes));
  return columns_meta(dims_of(other.sizes()), other.dtype(), other.device());
}

void ormqr_kernel(Tensor& out, const Tensor& packed, const Tensor& tau, const Tensor& other,
                  bool left, bool transposed) {
  Reflections r = packed_reflections(packed, tau);
  Matrices x = matrices_of(left ? other : transpose(other, -1, -2));
  for (int64_t i = 0; i < x.count; ++i)
    apply_q(r.packed.at(i), r.packed.cols, r.tau_at(i), r.n, x.at(i), x.rows, x.cols,
            transposed == left);
  store(left ? out : transpose(out, -1, -2), x);
}

// ---- symmetric eigenvalues

struct Rotation {
  double c, s;
};

// The rotation that clears the element pq of [[app, apq], [apq, aqq]].
Rotation clearing(double app, double apq, double aqq) {
  double theta = (aqq - app) / (2 * apq);
  double t = std::copysign(1.0, theta) / (std::fabs(theta) + std::sqrt(theta * theta + 1));
  double c = 1 / std::sqrt(t * t + 1);
  return {c, t * c};
}

void rotate(double& x, double& y, Rotation r) {
  double old = x;
  x = r.c * old - r.s * y;
  y = r.s * old + r.c * y;
}

// `a` ends diagonal; the columns of `v` (the identity at first) as the eigenvectors.
void diagonalise(double* a, double* v, int64_t n) {
  for (int sweep = 0; sweep < 60; ++sweep) {
    double off = 0, on = 0;
    for (int64_t i = 0; i < n; ++i)
      for (int64_t j = 0; j < n; ++j) (i == j ? on : off) += a[i * n + j] * a[i * n + j];
    if (off <= on * 1e-34 || off == 0) return;
    for (int64_t p = 0; p < n; ++p)
      for (int64_t q = p + 1; q < n; ++q) {
        if (a[p * n + q] == 0) continue;
        Rotation r = clearing(a[p * n + p], a[p * n + q], a[q * n + q]);
        for (int64_t k = 0; k < n; ++k) rotate(a[k * n + p], a[k * n + q], r);
        for (int64_t k = 0; k < n; ++k) rotate(a[p * n + k], a[q * n + k], r);
        for (int64_t k = 0; k < n; ++k) rotate(v[k * n + p], v[k * n + q], r);
      }
  }
}

std::array<TensorMeta, 2> eigh_metas(const Tensor& a, std::string_view, bool vectors) {
  require_square("linalg_eigh", a);
  return {rows_meta(batch_with(a, {a.size(-1)}), a.dtype(), a.device()),
          vectors ? columns_meta(dims_of(a.sizes()), a.dtype(), a.device())
                  : contiguous_meta({SymInt(0)}, a.dtype(), a.device())};
}

void eigh_kernel(Tensor& values, Tensor& vectors, const Tensor& a, std::string_view half,
                 bool with_vectors) {
  Matrices m = matrices_of(a), v = zero_matrices(m.count, m.rows, m.rows),
           sorted = zero_matrices(m.count, m.rows, m.rows);
  int64_t n = m.rows;
  bool lower = half == "L" || half == "l";
  std::vector<double> found;
  for (int64_t i = 0; i < m.count; ++i) {
    double* x = m.at(i);
    for (int64_t r = 0; r < n; ++r) {
      v.at(i)[r * n + r] = 1;
      for (int64_t c = 0; c < r; ++c)
        (lower ? x[c * n + r] : x[r * n + c]) = lower ? x[r * n + c] : x[c * n + r];
    }
    diagonalise(x, v.at(i), n);
    std::vector<int64_t> order(static_cast<size_t>(n));
    std::iota(order.begin(), order.end(), int64_t{0});
    std::sort(order.begin(), order.end(),
              [&](int64_t p, int64_t q) { return x[p * n + p] < x[q * n + q]; });
    for (int64_t k = 0; k < n; ++k) {
      int64_t from = order[static_cast<size_t>(k)];
      found.push_back(x[from * n + from]);
      for (int64_t r = 0; r < n; ++r) sorted.at(i)[r * n + k] = v.at(i)[r * n + from];
    }
  }
  store(values, found);
  if (with_vectors) store(vectors, sorted);
}

// ---- singular values

// Columns of `a` (rows >= cols) become orthogonal; `v` collects the rotations.
void orthogonalise(double* a, double* v, int64_t rows, int64_t cols) {
  for (int sweep = 0; sweep < 60; ++sweep) {
    bool done = true;
    for (int64_t p = 0; p < cols; ++p)
      for (int64_t q = p + 1; q < cols; ++q) {
        double pp = 0, pq = 0, qq = 0;
        for (int64_t i = 0; i < rows; ++i) {
          double x = a[i * cols + p], y = a[i * cols + q];
          pp += x * x, pq += x * y, qq += y * y;
        }
        if (std::fabs(pq) <= 1e-16 * std::sqrt(pp * qq)) continue;
        done = false;
        Rotation r = clearing(pp, pq, qq);
        for (int64_t i = 0; i < rows; ++i) rotate(a[i * cols + p], a[i * cols + q], r);
        for (int64_t i = 0; i < cols; ++i) rotate(v[i * cols + p], v[i * cols + q], r);
      }
    if (done) return;
  }
}

struct Svd {
  Matrices u, v;  // columns by falling singular value; square where asked for
  std::vector<double> s;
};

// Fills columns from `n` on (and those of length 0) with unit vectors orthogonal to all others.
void complete_columns(double* q, int64_t rows, int64_t cols, int64_t n) {
  for (int64_t c = n; c < cols; ++c)
    for (int64_t axis = 0; axis < rows; ++axis) {
      std::vector<double> x(static_cast<size_t>(rows), 0.0);
      x[static_cast<size_t>(axis)] = 1;
      for (int pass = 0; pass < 2; ++pass)
        for (int64_t k = 0; k < c; ++k) {
          double dot = 0;
          for (int64_t i = 0; i < rows; ++i) dot += q[i * cols + k] * x[static_cast<size_t>(i)];
          for (int64_t i = 0; i < rows; ++i) x[static_cast<size_t>(i)] -= dot * q[i * cols + k];
        }
      double length = std::sqrt(std::inner_product(x.begin(), x.end(), x.begin(), 0.0));
      if (length < 0.5 / std::sqrt(static_cast<double>(rows))) continue;
      for (int64_t i = 0; i < rows; ++i) q[i * cols + c] = x[static_cast<size_t>(i)] / length;
      break;
    }
}

// One tall matrix: u is rows x n_u, v is cols x cols.
void tall_svd(double* a, double* u, double* v, double* s, int64_t rows, int64_t cols, int64_t n_u) {
  std::vector<double> turned(static_cast<size_t>(cols * cols), 0.0);
  for (int64_t k = 0; k < cols; ++k) turned[static_cast<size_t>(k * cols + k)] = 1;
  orthogonalise(a, turned.data(), rows, cols);
  std::vector<double> length(static_cast<size_t>(cols), 0.0);
  std::vector<int64_t> order(static_cast<size_t>(cols));
  std::iota(order.begin(), order.end(), int64_t{0});
  for (int64_t c = 0; c < cols; ++c) {
    for (int64_t i = 0; i < rows; ++i)
      length[static_cast<size_t>(c)] += a[i * cols + c] * a[i * cols + c];
    length[static_cast<size_t>(c)] = std::sqrt(length[static_cast<size_t>(c)]);
  }
  auto longer = [&](int64_t p, int64_t q) {
    double x = length[static_cast<size_t>(p)], y = length[static_cast<size_t>(q)];
    return x != y ? x > y : p < q;
  };
  std::sort(order.begin(), order.end(), longer);
  int64_t whole = 0;
  double least = cols ? length[static_cast<size_t>(order[0])] * 1e-300 : 0;
  for (int64_t k = 0; k < cols; ++k) {
    int64_t from = order[static_cast<size_t>(k)];
    s[k] = length[static_cast<size_t>(from)];
    if (s[k] > least) whole = k + 1;
    for (int64_t i = 0; i < cols; ++i)
      v[i * cols + k] = turned[static_cast<size_t>(i * cols + from)];
    for (int64_t i = 0; i < rows && s[k] > least; ++i) u[i * n_u + k] = a[i * cols + from] / s[k];
  }
  complete_columns(u, rows, n_u, whole);
}

Svd svd_of(const Tensor& a, bool full) {
  bool wide = a.size(-1).word() > a.size(-2).word();
  Matrices m = matrices_of(wide ? transpose(a, -1, -2) : a);
  Svd d{zero_matrices(m.count, m.rows, full ? m.rows : m.cols),
        zero_matrices(m.count, m.cols, m.cols),
        std::vector<double>(static_cast<size_t>(m.count * m.cols))};
  for (int64_t i = 0; i < m.count; ++i)
    tall_svd(m.at(i), d.u.at(i), d.v.at(i), d.s.data() + i * m.cols, m.rows, m.cols, d.u.cols);
  if (wide) std::swap(d.u, d.v);
  return d;
}

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

void svd_kernel(Tensor& u, Tensor& s, Tensor& vh, const Tensor& a, bool full, bool vectors,
                Driver) {
  Svd d = svd_of(a, full && vectors);
  store(s, d.s);
  if (!vectors) return;
  store(u, d.u);
  store(transpose(vh, -1, -2), d.v);
}

Tensor svdvals(const Tensor& a, Driver driver) {
  return std::get<1>(_linalg_svd(a, false, false, driver));
}

// ---- the pseudoinverse: singular values at or below the tolerance count as 0

Tensor pinv_with(const Tensor& a, const Tensor& tolerance) {
  auto [u, s, vh] = _linalg_svd(a, false, true, std::nullopt);
  Tensor large = gt(s, unsqueeze(tolerance, -1));
  Tensor inverse = where(large, reciprocal(s), zeros_like(s));
  return matmul(mul(transpose(vh, -1, -2), unsqueeze(inverse, -2)), transpose(u, -1, -2));
}

Tensor pinv(const Tensor& a, const Tensor& atol, const Tensor& rtol) {
  require_matrices("linalg_pinv", a);
  if (guard_or_false(a.numel() == 0))
    return new_zeros(a, list_of(batch_with(a, {a.size(-1), a.size(-2)})));
  Tensor largest = amax(svdvals(a, std::nullopt), {-1});
  double eps = a.dtype() == Dtype::f64 ? std::numeric_limits<double>::epsilon()
                                       : std::numeric_limits<float>::epsilon();
  Number longer(sym_to_float(sym_max(a.size(-1), a.size(-2))));
  Tensor by_size = mul(mul(ones_like(largest), eps), longer);
  Tensor relative = rtol.defined()   ? rtol
                    : atol.defined() ? where(gt(atol, 0), zeros_like(largest), by_size)
                                     : by_size;
  Tensor tolerance = mul(largest, relative);
  if (atol.defined()) tolerance = maximum(tolerance, to(atol, a.dtype()));
  return pinv_with(a, to(tolerance, a.dtype()));
}

Tensor optional_number(std::optional<double> x) {
  return x ? scalar_tensor(*x, Dtype::f64) : Tensor();
}

}  // namespace

static constexpr OpDef rows[] = {
    {.schema = "geqrf(Tensor self) -> (Tensor a, Tensor tau)",
     .meta = fn<geqrf_metas>,
     .eager = fn<geqrf_kernel>},
    {.schema = "linalg_qr(Tensor A, str mode=\"reduced\") -> (Tensor Q, Tensor R)",
     .meta = fn<qr_metas>,
     .eager = fn<qr_kernel>},
    {.schema = "qr(Tensor self, bool some=True) -> (Tensor Q, Tensor R)",
     .decomp = [](const Tensor& self,
                  bool some) { return linalg_qr(self, some ? "reduced" : "complete"); }},
    {.schema = "linalg_householder_product(Tensor input, Tensor tau) -> Tensor",
     .meta = fn<product_meta>,
     .eager = fn<product_kernel>},
    {.schema = "orgqr(Tensor self, Tensor input2) -> Tensor",
     .decomp = [](const Tensor& self,
                  const Tensor& tau) { return linalg_householder_product(self, tau); }},
    {.schema = "ormqr(Tensor self, Tensor input2, Tensor input3, bool left=True, bool "
               "transpose=False) -> Tensor",
     .meta = fn<ormqr_meta>,
     .eager = fn<ormqr_kernel>},
    {.schema = "_linalg_eigh(Tensor A, str UPLO=\"L\", bool compute_v=True) -> (Tensor "
               "eigenvalues, Tensor eigenvectors)",
     .meta = fn<eigh_metas>,
     .eager = fn<eigh_kernel>},
    {.schema = "linalg_eigh(Tensor self, str UPLO=\"L\") -> (Tensor eigenvalues, Tensor "
               "eigenvectors)",
     .decomp = [](const Tensor& self,
                  std::string_view half) { return _linalg_eigh(self, half, true); }},
    {.schema = "linalg_eigvalsh(Tensor self, str UPLO=\"L\") -> Tensor",
     .decomp = [](const Tensor& self,
                  std::string_view half) { return std::get<0>(_linalg_eigh(self, half, false)); }},
    {.schema = "_linalg_svd(Tensor A, bool full_matrices=False, bool compute_uv=True, *, str? "
               "driver=None) -> (Tensor U, Tensor S, Tensor Vh)",
     .meta = fn<svd_metas>,
     .eager = fn<svd_kernel>},
    {.schema = "linalg_svd(Tensor A, bool full_matrices=True, *, str? driver=None) -> (Tensor U, "
               "Tensor S, Tensor Vh)",
     .decomp = [](const Tensor& a, bool full,
                  Driver driver) { return _linalg_svd(a, full, true, driver); }},
    {.schema = "svd(Tensor self, bool some=True, bool compute_uv=True) -> (Tensor U, Tensor S, "
               "Tensor V)",
     .decomp =
         [](const Tensor& self, bool some, bool vectors) {
           auto [u, s, vh] = _linalg_svd(self, !some, vectors, std::nullopt);
           return Triple{u, s, vectors ? transpose(vh, -1, -2) : vh};
         }},
    {.schema = "linalg_svdvals(Tensor A, *, str? driver=None) -> Tensor", .decomp = fn<svdvals>},
    {.schema = "linalg_pinv.atol_rtol_tensor(Tensor self, *, Tensor? atol=None, Tensor? rtol=None, "
               "bool hermitian=False) -> Tensor",
     .decomp = [](const Tensor& self, const Tensor& atol, const Tensor& rtol,
                  bool) { return pinv(self, atol, rtol); }},
    {.schema = "linalg_pinv.atol_rtol_float(Tensor self, *, float? atol=None, float? rtol=None, "
               "bool hermitian=False) -> Tensor",
     .decomp = [](const Tensor& self, std::optional<double> atol, std::optional<double> rtol,
                  bool) { return pinv(self, optional_number(atol), optional_number(rtol)); }},
    {.schema = "linalg_pinv(Tensor self, float rcond, bool hermitian=False) -> Tensor",
     .decomp = [](const Tensor& self, double rcond,
                  bool) { return pinv(self, optional_number(0.0), optional_number(rcond)); }},
    {.schema = "pinverse(Tensor self, float rcond=1.0000000000000001e-15) -> Tensor",
     .decomp =
         [](const Tensor& self, double rcond) {
           return pinv(self, optional_number(0.0), optional_number(rcond));
         }},
};

extern constinit const OpFamily op_family_linalg_orthogonal{rows};

}  // namespace tenon::ops
