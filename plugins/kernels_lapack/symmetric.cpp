// Symmetric matrices that need not be positive: L D L^T with blocks of one and two (Bunch and
// Kaufman), and solutions from it.
#include "kernels.h"
#include "routines.h"

namespace lapack {

namespace {

template <class T>
void factor(const tensor& ld, const tensor& pivots, const tensor& infos) {
  int n = rows_of(ld.get());
  auto run = [&](int64_t i, T* work, int size) {
    return sytrf<T>(LAPACK_COL_MAJOR, 'L', n, ld.data<T>() + i * n * n, n,
                    pivots.data<int32_t>() + i * n, work, size);
  };
  auto* info = infos.data<int32_t>();
  std::fill_n(info, infos->numel, 0);
  if (ld->numel == 0) return;
  T asked = 0;
  run(0, &asked, -1);
  int size = work_length(asked);
  for_matrices(infos->numel, cube(n) / 3, [&](int64_t lo, int64_t hi) {
    auto work = scratch<T>(size);
    for (int64_t i = lo; i < hi; ++i) {
      T* a = ld.data<T>() + i * n * n;
      info[i] = run(i, work.get(), size);
      for (int64_t c = 1; c < n; ++c) std::fill_n(a + c * n, c, T{0});
    }
  });
}

// A block of two has its number twice, both negative.
void check_pivots(const int32_t* steps, int64_t n) {
  for (int64_t k = 0; k < n; ++k) {
    bool pair = steps[k] < 0;
    if (steps[k] == 0 || std::abs(int64_t{steps[k]}) > n ||
        (pair && (k + 1 == n || steps[k + 1] >= 0)))
      refuse(
          "linalg_ldl_solve: pivot {} at place {} is none of a matrix of order {}; pass what "
          "linalg_ldl_factor gave",
          steps[k], k, n);
    if (pair) ++k;
  }
}

template <class T>
void solve_in(const tensor& x, const Operand& ld, const int32_t* steps) {
  int n = rows_of(x.get()), columns = columns_of(x.get());
  for_matrices(product_of(batch_of(x.get())), 2.0 * n * n * columns, [&](int64_t lo, int64_t hi) {
    for (int64_t i = lo; i < hi; ++i)
      sytrs<T>(LAPACK_COL_MAJOR, 'L', n, columns, ld.at<T>(i), ld.step(), steps + i * n,
               x.data<T>() + i * n * columns, n);
  });
}

}  // namespace

bool ldl_factor(const kernel_call& call) {
  const tn_tensor* a = call.tensor_at(0);
  if (!is_square(a)) return false;
  Sizes batch = batch_of(a);
  tensor ld = copy_by_columns(a), pivots = tensor::empty(with(batch, {rows_of(a)}), TN_I32),
         infos = tensor::empty(batch, TN_I32);
  by_dtype(a->dtype, [&]<class T>() { factor<T>(ld, pivots, infos); });
  int64_t i = flag_at(call, 2) ? first_broken(infos) : -1;
  if (i >= 0)
    refuse("{}the matrix is singular: block {} of its factors is zero",
           place_of("linalg_ldl_factor", batch, i), infos.data<int32_t>()[i]);
  call.give(0, std::move(ld));
  call.give(1, std::move(pivots));
  call.give(2, std::move(infos));
  return true;
}

bool ldl_solve(const kernel_call& call) {
  const tn_tensor *ld = call.tensor_at(0), *pivots = call.tensor_at(1), *b = call.tensor_at(2);
  Sizes batch;
  if (!are_alike(ld, b) || !is_square(ld) || rows_of(ld) != rows_of(b) || !is_readable(pivots) ||
      !common_batch(ld, b, batch))
    return false;
  int64_t n = rows_of(ld);
  tensor x = copy_by_columns(b, with(batch, {n, columns_of(b)}));
  tensor steps = whole_numbers(pivots, with(batch, {n}));
  for (int64_t i = 0; n && i < steps->numel / n; ++i)
    check_pivots(steps.data<int32_t>() + i * n, n);
  Operand factors(ld, batch, true);
  if (x->numel)
    by_dtype(b->dtype, [&]<class T>() { solve_in<T>(x, factors, steps.data<int32_t>()); });
  call.give(0, std::move(x));
  return true;
}

}  // namespace lapack
