// Solutions of A X = B with the least squares, for matrices of any shape, by the four drivers of
// LAPACK: gels (QR, full rank), gelsy (QR with exchanged columns), gelsd and gelss (singular
// values).
#include "kernels.h"
#include "routines.h"

#include <limits>

namespace lapack {

namespace {

enum class Driver { gels, gelsy, gelsd, gelss };

struct Problem {
  Driver driver;
  int rows, columns, right;
  double tolerance;
  tensor a, x;           // x has the longer of both sizes of rows, with B in the first ones
  tensor values, ranks;  // empty where the driver gives none
  int shorter() const { return std::min(rows, columns); }
  int longer() const { return std::max(rows, columns); }
};

/// What one call of a routine works in; sizes of -1 ask for them.
template <class T>
struct Work {
  T* numbers;
  int n_numbers;
  int* integers;
};

template <class T>
int run(const Problem& p, int64_t i, const Work<T>& w) {
  int m = p.rows, n = p.columns, rank = 0, info = 0, step = step_of(p.longer());
  T *a = p.a.data<T>() + i * m * n, *x = p.x.data<T>() + i * step * p.right;
  T* values = p.values->numel ? p.values.data<T>() + i * p.shorter() : nullptr;
  T tolerance = static_cast<T>(p.tolerance);
  switch (p.driver) {
    case Driver::gels:
      return gels<T>(LAPACK_COL_MAJOR, 'N', m, n, p.right, a, m, x, step, w.numbers, w.n_numbers);
    case Driver::gelsy:
      info = gelsy<T>(LAPACK_COL_MAJOR, m, n, p.right, a, m, x, step, w.integers, tolerance, &rank,
                      w.numbers, w.n_numbers);
      break;
    case Driver::gelsd:
      info = gelsd<T>(LAPACK_COL_MAJOR, m, n, p.right, a, m, x, step, values, tolerance, &rank,
                      w.numbers, w.n_numbers, w.integers);
      break;
    case Driver::gelss:
      info = gelss<T>(LAPACK_COL_MAJOR, m, n, p.right, a, m, x, step, values, tolerance, &rank,
                      w.numbers, w.n_numbers);
  }
  if (w.n_numbers >= 0) p.ranks.data<int64_t>()[i] = rank;
  return info;
}

bool finds_values(Driver driver) { return driver == Driver::gelsd || driver == Driver::gelss; }

// LAPACK's search for singular values may not end where an element is not finite.
template <class T>
void check_finite(const Problem& p, const Sizes& batch) {
  auto size = int64_t{p.rows} * p.columns;
  for (int64_t i = 0; finds_values(p.driver) && i < p.a->numel / size; ++i)
    if (!is_finite(p.a.data<T>() + i * size, size))
      refuse("{}the matrix has elements that are not finite", place_of("linalg_lstsq", batch, i));
}

template <class T>
void solve_each(const Problem& p, const Sizes& batch) {
  check_finite<T>(p, batch);
  T asked = 0;
  int n_integers = p.columns;
  run<T>(p, 0, {&asked, -1, &n_integers});
  int n_numbers = work_length(asked);
  n_integers = std::max(n_integers, p.columns);
  std::vector<int32_t> infos(static_cast<size_t>(product_of(batch)), 0);
  double work = 4.0 * p.rows * p.columns * p.shorter();
  for_matrices(product_of(batch), work, [&](int64_t lo, int64_t hi) {
    auto numbers = scratch<T>(n_numbers);
    auto integers = scratch<int>(n_integers);
    for (int64_t i = lo; i < hi; ++i) {
      std::fill_n(integers.get(), n_integers, 0);  // no column is bound to a place
      infos[static_cast<size_t>(i)] = run<T>(p, i, {numbers.get(), n_numbers, integers.get()});
    }
  });
  for (size_t i = 0; i < infos.size(); ++i)
    if (infos[i] != 0)
      refuse(
          "{}no solution was found: the matrix has not full rank, or its singular values did "
          "not converge (LAPACK's error code: {}); try another driver",
          place_of("linalg_lstsq", batch, static_cast<int64_t>(i)), infos[i]);
}

// Nothing to factor: the solution is zero.
template <class T>
void clear(const Problem& p) {
  std::fill_n(p.ranks.data<int64_t>(), p.ranks->numel, int64_t{0});
  T* x = p.x.data<T>();
  for (int64_t c = 0; p.x->numel && c < p.x->numel / p.longer(); ++c)
    std::fill_n(x + c * p.longer(), p.columns, T{0});
}

// The sum of squares of what the rows behind the solution hold.
template <class T>
void put_residuals(const Problem& p, T* out) {
  for (int64_t c = 0; c < p.x->numel / p.rows; ++c) {
    const T* column = p.x.data<T>() + c * p.rows;
    T sum = 0;
    for (int r = p.columns; r < p.rows; ++r) sum += column[r] * column[r];
    out[c] = sum;
  }
}

bool has_residuals(const Problem& p) {
  if (p.driver == Driver::gelsy || p.rows <= p.columns) return false;
  const auto* rank = p.ranks.data<int64_t>();
  return std::all_of(rank, rank + p.ranks->numel, [&](int64_t r) { return r == p.columns; });
}

tensor residuals_of(const Problem& p, const Sizes& batch) {
  bool given = has_residuals(p);
  tensor out = tensor::empty(given ? with(batch, {p.right}) : Sizes{0}, p.a->dtype);
  if (given && out->numel)
    by_dtype(p.a->dtype, [&]<class T>() { put_residuals(p, out.data<T>()); });
  return out;
}

bool driver_at(const kernel_call& call, size_t i, Driver& driver) {
  constexpr std::string_view names[] = {"gels", "gelsy", "gelsd", "gelss"};
  std::string_view name = call.args[i].kind == TN_ARG_NONE ? "gelsy" : text_at(call, i);
  const auto* found = std::find(std::begin(names), std::end(names), name);
  driver = static_cast<Driver>(found - names);
  return found != std::end(names);
}

double tolerance_at(const kernel_call& call, size_t i, const tn_tensor* a) {
  if (call.args[i].kind == TN_ARG_FLOAT) return call.args[i].u.f;
  double eps = a->dtype == TN_F32 ? std::numeric_limits<float>::epsilon()
                                  : std::numeric_limits<double>::epsilon();
  return eps * std::max(rows_of(a), columns_of(a));
}

Problem problem_of(const tn_tensor* a, const tn_tensor* b, Driver driver, double tolerance) {
  int m = rows_of(a), n = columns_of(a), right = columns_of(b);
  Sizes batch = batch_of(a);
  Problem p{driver, m, n, right, tolerance, copy_by_columns(a), {}, {}, {}};
  p.x = by_columns(with(batch, {p.longer(), right}), a->dtype);
  Sizes strides(p.x->strides, p.x->strides + p.x->ndim);
  view_of(p.x, with(batch, {m, right}), strides).copy_from(b);
  Sizes of_values = finds_values(driver) ? with(batch, {p.shorter()}) : Sizes{0};
  p.values = tensor::empty(of_values, a->dtype);
  p.ranks = tensor::empty(driver == Driver::gels ? Sizes{0} : batch, TN_I64);
  return p;
}

tensor solution_of(const Problem& p, const Sizes& batch, bool vectors) {
  Sizes strides(p.x->strides, p.x->strides + p.x->ndim), sizes = with(batch, {p.columns, p.right});
  if (vectors) {
    sizes.pop_back();
    strides.pop_back();
  }
  return view_of(p.x, sizes, strides);
}

}  // namespace

bool least_squares(const kernel_call& call) {
  const tn_tensor *a = call.tensor_at(0), *given = call.tensor_at(1);
  Driver driver;
  if (!is_matrices(a) || !is_readable(given) || given->ndim < 1 || !driver_at(call, 3, driver))
    return false;
  bool vectors = is_vectors(a, given);
  tensor held = vectors ? as_columns(given) : tensor();
  const tn_tensor* b = vectors ? held.get() : given;
  Sizes batch = batch_of(a);
  if (!are_alike(a, b) || batch_of(b) != batch || rows_of(a) != rows_of(b)) return false;
  Problem p = problem_of(a, b, driver, tolerance_at(call, 2, a));
  by_dtype(a->dtype, [&]<class T>() {
    if (p.a->numel && p.right)
      solve_each<T>(p, batch);
    else
      clear<T>(p);
  });
  call.give(0, solution_of(p, batch, vectors));
  call.give(1, residuals_of(p, batch));
  call.give(2, std::move(p.ranks));
  call.give(3, std::move(p.values));
  return true;
}

}  // namespace lapack
