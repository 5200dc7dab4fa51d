// Cholesky's factors, and solutions from them.
#include "kernels.h"
#include "routines.h"

#include <cmath>

namespace lapack {

namespace {

// Zeros in the half that does not belong to the factor.
template <class T>
void clear_other_half(T* a, int n, bool upper) {
  for (int64_t c = 0; c < n; ++c) {
    T* column = a + c * n;
    if (upper)
      std::fill(column + c + 1, column + n, T{0});
    else
      std::fill(column, column + c, T{0});
  }
}

// The first pivot that is not a number: OpenBLAS goes on where others stop.
template <class T>
int first_nan(const T* a, int n) {
  for (int64_t k = 0; k < n; ++k)
    if (std::isnan(a[k * n + k])) return static_cast<int>(k + 1);
  return 0;
}

template <class T>
void factor(const tensor& out, int32_t* infos, bool upper) {
  int n = rows_of(out.get());
  auto size = int64_t{n} * n;
  for_matrices(product_of(batch_of(out.get())), cube(n) / 3, [&](int64_t lo, int64_t hi) {
    for (int64_t i = lo; i < hi; ++i) {
      T* a = out.data<T>() + i * size;
      infos[i] = n ? potrf<T>(LAPACK_COL_MAJOR, upper ? 'U' : 'L', n, a, n) : 0;
      if (infos[i] == 0) infos[i] = first_nan(a, n);
      clear_other_half(a, n, upper);
    }
  });
}

void check_positive(const tensor& infos, const Sizes& batch) {
  int64_t i = first_broken(infos);
  if (i < 0) return;
  refuse("{}the matrix is not positive-definite: its leading minor of order {} is not positive",
         place_of("linalg_cholesky", batch, i), infos.data<int32_t>()[i]);
}

template <class T>
void solve_with(const tensor& x, const Operand& factor, bool upper) {
  int n = rows_of(x.get()), columns = columns_of(x.get());
  char half = upper != factor.is_transposed() ? 'U' : 'L';
  for_matrices(product_of(batch_of(x.get())), 2.0 * n * n * columns, [&](int64_t lo, int64_t hi) {
    for (int64_t i = lo; i < hi; ++i)
      potrs<T>(LAPACK_COL_MAJOR, half, n, columns, factor.at<T>(i), factor.step(),
               x.data<T>() + i * n * columns, n);
  });
}

}  // namespace

bool cholesky(const kernel_call& call) {
  const tn_tensor* a = call.tensor_at(0);
  if (!is_square(a)) return false;
  Sizes batch = batch_of(a);
  tensor out = copy_by_columns(a), infos = tensor::empty(batch, TN_I32);
  by_dtype(a->dtype, [&]<class T>() { factor<T>(out, infos.data<int32_t>(), flag_at(call, 1)); });
  if (flag_at(call, 2)) check_positive(infos, batch);
  call.give(0, std::move(out));
  call.give(1, std::move(infos));
  return true;
}

bool cholesky_solve(const kernel_call& call) {
  const tn_tensor *b = call.tensor_at(0), *a = call.tensor_at(1);
  Sizes batch;
  if (!are_alike(a, b) || !is_square(a) || rows_of(a) != rows_of(b) || !common_batch(a, b, batch))
    return false;
  tensor x = copy_by_columns(b, with(batch, {rows_of(b), columns_of(b)}));
  Operand factor(a, batch, false);
  if (x->numel) by_dtype(a->dtype, [&]<class T>() { solve_with<T>(x, factor, flag_at(call, 2)); });
  call.give(0, std::move(x));
  return true;
}

}  // namespace lapack
