// Systems with triangular matrices.
#include "kernels.h"
#include "routines.h"

namespace lapack {

namespace {

struct Triangle {
  bool upper, left, transposed, unit;
};

// x := the solution of T x = x, or x T = x.
template <class T>
void solve_in(const tensor& x, const Operand& a, Triangle shape) {
  int rows = rows_of(x.get()), columns = columns_of(x.get());
  int n = shape.left ? rows : columns;
  CBLAS_UPLO half = shape.upper != a.is_transposed() ? CblasUpper : CblasLower;
  CBLAS_TRANSPOSE turn = shape.transposed != a.is_transposed() ? CblasTrans : CblasNoTrans;
  for_matrices(product_of(batch_of(x.get())), static_cast<double>(n) * rows * columns,
               [&](int64_t lo, int64_t hi) {
                 for (int64_t i = lo; i < hi; ++i)
                   trsm<T>(CblasColMajor, shape.left ? CblasLeft : CblasRight, half, turn,
                           shape.unit ? CblasUnit : CblasNonUnit, rows, columns, T{1}, a.at<T>(i),
                           a.step(), x.data<T>() + i * rows * columns, step_of(rows));
               });
}

// The solution for a batch that both operands broadcast to; empty where they do not fit.
tensor solution(const tn_tensor* a, const tn_tensor* b, Triangle shape, Sizes& batch) {
  if (!are_alike(a, b) || !is_square(a) || !common_batch(a, b, batch)) return {};
  if (rows_of(a) != (shape.left ? rows_of(b) : columns_of(b))) return {};
  tensor x = copy_by_columns(b, with(batch, {rows_of(b), columns_of(b)}));
  Operand triangle(a, batch, false);
  if (x->numel) by_dtype(a->dtype, [&]<class T>() { solve_in<T>(x, triangle, shape); });
  return x;
}

}  // namespace

bool solve_triangular(const kernel_call& call) {
  Sizes batch;
  Triangle shape{flag_at(call, 2), flag_at(call, 3), false, flag_at(call, 4)};
  tensor x = solution(call.tensor_at(0), call.tensor_at(1), shape, batch);
  if (!x) return false;
  call.give(0, std::move(x));
  return true;
}

bool triangular_solve(const kernel_call& call) {
  const tn_tensor* a = call.tensor_at(1);
  Sizes batch;
  Triangle shape{flag_at(call, 2), true, flag_at(call, 3), flag_at(call, 4)};
  tensor x = solution(a, call.tensor_at(0), shape, batch);
  if (!x) return false;
  tensor copy = copy_by_columns(a, with(batch, {rows_of(a), columns_of(a)}));
  call.give(0, std::move(x));
  call.give(1, std::move(copy));
  return true;
}

}  // namespace lapack
