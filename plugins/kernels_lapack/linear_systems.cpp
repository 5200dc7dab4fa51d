// Solutions of square systems from LU factors.
#include "kernels.h"
#include "lu.h"
#include "routines.h"

namespace lapack {

namespace {

// x := the solution of A x = x, or of its transpose; pivots lie beside the matrices of the walk.
template <class T>
void solve_in(const tensor& x, int n, int columns, const Operand& lu, const tensor& pivots,
              bool transposed) {
  const auto* steps = pivots.data<int32_t>();
  for_matrices(x->numel / (int64_t{n} * columns), 2.0 * n * n * columns,
               [&](int64_t lo, int64_t hi) {
                 for (int64_t i = lo; i < hi; ++i)
                   getrs<T>(LAPACK_COL_MAJOR, transposed ? 'T' : 'N', n, columns, lu.at<T>(i),
                            lu.step(), steps + i * n, x.data<T>() + i * n * columns, n);
               });
}

void check_pivots(const tensor& pivots, int n) {
  const auto* steps = pivots.data<int32_t>();
  for (int64_t i = 0; i < pivots->numel; ++i)
    if (steps[i] < 1 || steps[i] > n)
      refuse(
          "linalg_lu_solve: pivot {} is out of range for matrices of {} rows; they count from "
          "1, as linalg_lu_factor gives them",
          steps[i], n);
}

// Solutions X of A X = B, or X A = B with X row by row: those are columns of A^T X^T = B^T. Factors
// of A^T are told by `turned`.
tensor solution(const tn_tensor* lu, const tn_tensor* pivots, const tn_tensor* b,
                const Sizes& batch, bool left, bool turned) {
  int n = rows_of(lu), columns = left ? columns_of(b) : rows_of(b);
  Sizes sizes = with(batch, {rows_of(b), columns_of(b)});
  tensor x = left ? copy_by_columns(b, sizes) : copy_by_rows(b, sizes);
  tensor steps = whole_numbers(pivots, with(batch, {n}));
  check_pivots(steps, n);
  Operand factors(lu, batch, true);
  if (x->numel)
    by_dtype(lu->dtype,
             [&]<class T>() { solve_in<T>(x, n, columns, factors, steps, left == turned); });
  return x;
}

// ATen lays vectors of a batch out as it would the columns of a matrix.
tensor as_vectors(tensor columns) {
  Sizes sizes = batch_of(columns.get(), 1);
  tensor vectors =
      view_of(columns, sizes, Sizes(columns->strides, columns->strides + sizes.size()));
  return sizes.size() < 2 ? std::move(vectors) : copy_by_columns(vectors.get());
}

}  // namespace

bool lu_solve(const kernel_call& call) {
  const tn_tensor *lu = call.tensor_at(0), *pivots = call.tensor_at(1), *b = call.tensor_at(2);
  bool left = flag_at(call, 3), adjoint = flag_at(call, 4);
  Sizes batch;
  if (!are_alike(lu, b) || !is_square(lu) || !is_readable(pivots) || !common_batch(lu, b, batch) ||
      rows_of(lu) != (left ? rows_of(b) : columns_of(b)))
    return false;
  call.give(0, solution(lu, pivots, b, batch, left, adjoint));
  return true;
}

bool solve(const kernel_call& call) {
  const tn_tensor *a = call.tensor_at(0), *given = call.tensor_at(1);
  if (!is_square(a) || !is_readable(given) || given->ndim < 1) return false;
  bool vectors = is_vectors(a, given), left = flag_at(call, 2);
  tensor held = vectors ? as_columns(given) : tensor();
  const tn_tensor* b = vectors ? held.get() : given;
  Sizes batch;
  if (!are_alike(a, b) || !common_batch(a, b, batch) ||
      rows_of(a) != (left ? rows_of(b) : columns_of(b)))
    return false;
  Factors f = factored(a);
  int64_t broken = flag_at(call, 3) ? first_broken(f.infos) : -1;
  if (broken >= 0)
    refuse("{}the matrix is singular: pivot {} of its factors is zero",
           place_of("linalg_solve", f.batch, broken), f.infos.data<int32_t>()[broken]);
  tensor x = solution(f.lu.get(), f.pivots.get(), b, batch, left, false);
  call.give(0, vectors ? as_vectors(std::move(x)) : std::move(x));
  call.give(1, std::move(f.lu));
  call.give(2, std::move(f.pivots));
  call.give(3, std::move(f.infos));
  return true;
}

}  // namespace lapack
