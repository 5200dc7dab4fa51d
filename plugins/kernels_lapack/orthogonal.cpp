// QR by reflections, the matrix that reflections make, and products with it.
#include "kernels.h"
#include "routines.h"

namespace lapack {

namespace {

// What a routine asks to work in: called once with a size of -1.
template <class T, class F>
int work_size(F routine) {
  T asked = 0;
  routine(&asked, -1);
  return work_length(asked);
}

// R on and above the diagonal, the vectors of the reflections below it.
template <class T>
void reflect(const tensor& a, T* tau) {
  int rows = rows_of(a.get()), columns = columns_of(a.get()), n = std::min(rows, columns);
  if (n == 0) return;
  auto run = [&](int64_t i, T* work, int size) {
    geqrf<T>(LAPACK_COL_MAJOR, rows, columns, a.data<T>() + i * rows * columns, rows, tau + i * n,
             work, size);
  };
  int64_t count = product_of(batch_of(a.get()));
  if (count == 0) return;
  int size = work_size<T>([&](T* work, int n_work) { run(0, work, n_work); });
  for_matrices(count, 2.0 * rows * columns * n, [&](int64_t lo, int64_t hi) {
    auto work = scratch<T>(size);
    for (int64_t i = lo; i < hi; ++i) run(i, work.get(), size);
  });
}

// In place: the first columns of the product of `n_tau` reflections.
template <class T>
void form_q(const tensor& q, const T* tau, int n_tau, int64_t tau_step) {
  int rows = rows_of(q.get()), columns = columns_of(q.get());
  int64_t count = product_of(batch_of(q.get()));
  if (q->numel == 0) return;
  auto run = [&](int64_t i, T* work, int size) {
    orgqr<T>(LAPACK_COL_MAJOR, rows, columns, n_tau, q.data<T>() + i * rows * columns, rows,
             tau + i * tau_step, work, size);
  };
  int size = work_size<T>([&](T* work, int n_work) { run(0, work, n_work); });
  for_matrices(count, 2.0 * rows * columns * std::max(1, n_tau), [&](int64_t lo, int64_t hi) {
    auto work = scratch<T>(size);
    for (int64_t i = lo; i < hi; ++i) run(i, work.get(), size);
  });
}

// Copies what both have of rows and columns; a triangle has zeros below its diagonal.
template <class T>
void copy_corner(const tensor& to, const tensor& from, bool triangle) {
  int64_t rows = rows_of(to.get()), columns = columns_of(to.get());
  int64_t from_rows = rows_of(from.get()), from_columns = columns_of(from.get());
  int64_t count = product_of(batch_of(to.get()));
  for (int64_t i = 0; i < count; ++i)
    for (int64_t c = 0; c < std::min(columns, from_columns); ++c) {
      T* x = to.data<T>() + (i * columns + c) * rows;
      const T* y = from.data<T>() + (i * from_columns + c) * from_rows;
      int64_t n = std::min(rows, triangle ? std::min(c + 1, from_rows) : from_rows);
      if (x != y) std::copy_n(y, n, x);
      if (triangle) std::fill(x + n, x + rows, T{0});
    }
}

struct Mode {
  bool complete, with_q;
};

// The reflections are made in the memory of Q or R, where one has the shape of the matrix.
template <class T>
void factor(const tn_tensor* a, Mode mode, tensor& q, tensor& r) {
  int rows = rows_of(a), columns = columns_of(a), n = std::min(rows, columns);
  int k = mode.complete ? rows : n;
  Sizes batch = batch_of(a);
  tensor packed = copy_by_columns(a);
  tensor tau = tensor::empty(with(batch, {n}), a->dtype);
  reflect(packed, tau.data<T>());
  auto place = [&](int wide) {
    return wide == columns ? tensor::share(packed.get())
                           : by_columns(with(batch, {rows, wide}), a->dtype);
  };
  bool same_r = k == rows && !(mode.with_q && k == columns);
  r = same_r ? tensor::share(packed.get()) : by_columns(with(batch, {k, columns}), a->dtype);
  if (mode.with_q) q = same_r ? by_columns(with(batch, {rows, k}), a->dtype) : place(k);
  if (mode.with_q && q.get() != packed.get()) copy_corner<T>(q, packed, false);
  copy_corner<T>(r, packed, true);
  if (mode.with_q) form_q<T>(q, tau.data<T>(), n, n);
}

}  // namespace

bool geqrf_op(const kernel_call& call) {
  const tn_tensor* a = call.tensor_at(0);
  if (!is_matrices(a)) return false;
  tensor out = copy_by_columns(a);
  int64_t n = std::min(rows_of(a), columns_of(a));
  tensor tau = tensor::empty(with(batch_of(a), {n}), a->dtype);
  by_dtype(a->dtype, [&]<class T>() { reflect(out, tau.data<T>()); });
  call.give(0, std::move(out));
  call.give(1, std::move(tau));
  return true;
}

bool qr(const kernel_call& call) {
  const tn_tensor* a = call.tensor_at(0);
  std::string_view mode = text_at(call, 1);
  if (!is_matrices(a) || (mode != "reduced" && mode != "complete" && mode != "r")) return false;
  tensor q, r;
  by_dtype(a->dtype, [&]<class T>() { factor<T>(a, {mode == "complete", mode != "r"}, q, r); });
  if (!q) q = tensor::empty(std::array<int64_t, 1>{0}, a->dtype);
  call.give(0, std::move(q));
  call.give(1, std::move(r));
  return true;
}

namespace {

// As many scalars as reflections, for each matrix of the batch of `packed`.
bool are_reflections(const tn_tensor* packed, const tn_tensor* tau) {
  if (!is_matrices(packed) || !is_readable(tau) || tau->dtype != packed->dtype ||
      tau->ndim != packed->ndim - 1 || batch_of(tau, 1) != batch_of(packed))
    return false;
  int64_t n = tau->sizes[tau->ndim - 1];
  return n <= rows_of(packed) && n <= columns_of(packed);
}

struct Product {
  bool left, transposed;
};

template <class T>
void multiply_by_q(const tensor& x, const Operand& packed, const T* tau, int n_tau, Product how) {
  int rows = rows_of(x.get()), columns = columns_of(x.get());
  int64_t count = product_of(batch_of(x.get()));
  auto run = [&](int64_t i, T* work, int size) {
    ormqr<T>(LAPACK_COL_MAJOR, how.left ? 'L' : 'R', how.transposed ? 'T' : 'N', rows, columns,
             n_tau, packed.at<T>(i), packed.step(), tau + i * n_tau,
             x.data<T>() + i * rows * columns, rows, work, size);
  };
  int size = work_size<T>([&](T* work, int n_work) { run(0, work, n_work); });
  for_matrices(count, 4.0 * rows * columns * n_tau, [&](int64_t lo, int64_t hi) {
    auto work = scratch<T>(size);
    for (int64_t i = lo; i < hi; ++i) run(i, work.get(), size);
  });
}

}  // namespace

bool householder_product(const kernel_call& call) {
  const tn_tensor *packed = call.tensor_at(0), *tau = call.tensor_at(1);
  if (!are_reflections(packed, tau) || rows_of(packed) < columns_of(packed)) return false;
  int n = columns_of(tau);
  tensor q = copy_by_columns(packed), dense = copy_by_rows(tau, batch_of(tau, 0));
  by_dtype(packed->dtype, [&]<class T>() { form_q<T>(q, dense.data<T>(), n, n); });
  call.give(0, std::move(q));
  return true;
}

bool ormqr_op(const kernel_call& call) {
  const tn_tensor *packed = call.tensor_at(0), *tau = call.tensor_at(1), *c = call.tensor_at(2);
  Product how{flag_at(call, 3), flag_at(call, 4)};
  if (!are_reflections(packed, tau) || !are_alike(packed, c) || batch_of(c) != batch_of(packed) ||
      rows_of(packed) != (how.left ? rows_of(c) : columns_of(c)))
    return false;
  int n = columns_of(tau);
  tensor x = copy_by_columns(c), dense = copy_by_rows(tau, batch_of(tau, 0));
  Operand reflections(packed, batch_of(packed), true);
  if (x->numel && n)
    by_dtype(c->dtype,
             [&]<class T>() { multiply_by_q<T>(x, reflections, dense.data<T>(), n, how); });
  call.give(0, std::move(x));
  return true;
}

}  // namespace lapack
