// Eigenvalues and eigenvectors of symmetric matrices.
#include "kernels.h"
#include "routines.h"

namespace lapack {

namespace {

// LAPACK may loop without end, or read what is not there, where an element is not finite.
template <class T>
bool half_is_finite(const T* a, int n, bool upper) {
  for (int64_t c = 0; c < n; ++c) {
    const T* column = a + c * n;
    if (!(upper ? is_finite(column, c + 1) : is_finite(column + c, n - c))) return false;
  }
  return true;
}

struct Half {
  bool upper, vectors;
};

// In place: eigenvectors as columns. The info is -1 where an element is not finite.
template <class T>
void decompose(const tensor& a, T* values, int32_t* infos, Half half) {
  int n = rows_of(a.get());
  if (n == 0) return;
  auto size = int64_t{n} * n;
  auto run = [&](int64_t i, T* work, int n_work, int* whole_work, int n_whole) {
    return syevd<T>(LAPACK_COL_MAJOR, half.vectors ? 'V' : 'N', half.upper ? 'U' : 'L', n,
                    a.data<T>() + i * size, n, values + i * n, work, n_work, whole_work, n_whole);
  };
  T asked = 0;
  int n_whole = 0;
  run(0, &asked, -1, &n_whole, -1);
  int n_work = work_length(asked);
  int64_t count = product_of(batch_of(a.get()));
  for_matrices(count, cube(n) * (half.vectors ? 9 : 2), [&](int64_t lo, int64_t hi) {
    auto work = scratch<T>(n_work);
    auto whole_work = scratch<int>(n_whole);
    for (int64_t i = lo; i < hi; ++i)
      infos[i] = !half_is_finite(a.data<T>() + i * size, n, half.upper)
                     ? -1
                     : run(i, work.get(), n_work, whole_work.get(), n_whole);
  });
}

}  // namespace

bool eigh(const kernel_call& call) {
  const tn_tensor* a = call.tensor_at(0);
  std::string_view half = text_at(call, 1);
  if (!is_square(a) || half.size() != 1 || std::string_view("LlUu").find(half) == half.npos)
    return false;
  bool vectors = flag_at(call, 2);
  Sizes batch = batch_of(a);
  tensor out = copy_by_columns(a);
  tensor values = tensor::empty(with(batch, {rows_of(a)}), a->dtype);
  std::vector<int32_t> infos(static_cast<size_t>(product_of(batch)), 0);
  if (!infos.empty())
    by_dtype(a->dtype, [&]<class T>() {
      decompose(out, values.data<T>(), infos.data(), {half == "U" || half == "u", vectors});
    });
  check_converged("linalg_eigh", infos, batch,
                  ": the matrix is ill-conditioned, or has too many repeated eigenvalues");
  call.give(0, std::move(values));
  call.give(1, vectors ? std::move(out) : tensor::empty(std::array<int64_t, 1>{0}, a->dtype));
  return true;
}

}  // namespace lapack
