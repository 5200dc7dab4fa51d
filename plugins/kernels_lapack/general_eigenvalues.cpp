// Eigenvalues and eigenvectors of matrices without symmetry.
#include "kernels.h"
#include "routines.h"

#include <complex>

namespace lapack {

namespace {

template <class T>
struct Eigen {
  std::complex<T>*values, *vectors;
};

// LAPACK gives a pair of conjugate vectors as its real and its imaginary part, in two columns.
template <class T>
void unpack(const T* re, const T* im, const T* packed, int64_t n, Eigen<T> out) {
  for (int64_t j = 0; j < n; ++j) out.values[j] = {re[j], im[j]};
  for (int64_t j = 0; j < n; ++j) {
    const T* column = packed + j * n;
    bool is_pair = im[j] != 0 && j + 1 < n;
    for (int64_t i = 0; i < n; ++i) {
      T imaginary = is_pair ? column[n + i] : T(0);
      out.vectors[j * n + i] = {column[i], imaginary};
      if (is_pair) out.vectors[(j + 1) * n + i] = {column[i], -imaginary};
    }
    if (is_pair) ++j;
  }
}

template <class T>
void decompose(const tensor& a, Eigen<T> out, int32_t* infos) {
  int n = rows_of(a.get());
  if (n == 0) return;
  auto size = int64_t{n} * n;
  auto run = [&](T* matrix, T* re, T* im, T* vectors, T* work, int n_work) {
    return geev<T>(LAPACK_COL_MAJOR, 'N', 'V', n, matrix, n, re, im, nullptr, n, vectors, n, work,
                   n_work);
  };
  T asked = 0;
  run(a.data<T>(), nullptr, nullptr, nullptr, &asked, -1);
  int n_work = work_length(asked);
  for_matrices(product_of(batch_of(a.get())), cube(n) * 25, [&](int64_t lo, int64_t hi) {
    auto work = scratch<T>(n_work), re = scratch<T>(n), im = scratch<T>(n), v = scratch<T>(size);
    for (int64_t i = lo; i < hi; ++i) {
      T* matrix = a.data<T>() + i * size;
      infos[i] = is_finite(matrix, size)
                     ? run(matrix, re.get(), im.get(), v.get(), work.get(), n_work)
                     : -1;
      if (infos[i] == 0)
        unpack<T>(re.get(), im.get(), v.get(), n, {out.values + i * n, out.vectors + i * size});
    }
  });
}

}  // namespace

bool eig(const kernel_call& call) {
  const tn_tensor* a = call.tensor_at(0);
  if (!is_square(a)) return false;
  Sizes batch = batch_of(a);
  int32_t dtype = a->dtype == TN_F64 ? TN_C128 : TN_C64;
  tensor work = copy_by_columns(a), values = tensor::empty(with(batch, {rows_of(a)}), dtype);
  tensor vectors = by_columns(Sizes(a->sizes, a->sizes + a->ndim), dtype);
  std::vector<int32_t> infos(static_cast<size_t>(product_of(batch)), 0);
  if (!infos.empty())
    by_dtype(a->dtype, [&]<class T>() {
      decompose<T>(work, {values.data<std::complex<T>>(), vectors.data<std::complex<T>>()},
                   infos.data());
    });
  check_converged("linalg_eig", infos, batch);
  call.give(0, std::move(values));
  call.give(1, std::move(vectors));
  return true;
}

}  // namespace lapack
