// Singular values and vectors.
#include "kernels.h"
#include "routines.h"

namespace lapack {

namespace {

struct Parts {
  tensor a, u, s, vh;
  bool full, vectors;
};

// The info of a matrix is -4 where an element is not finite, as LAPACK tells it.
template <class T>
void decompose(const Parts& p, int32_t* infos) {
  int64_t m = rows_of(p.a.get()), n = columns_of(p.a.get()), k = std::min(m, n);
  int64_t u_columns = p.full ? m : k, v_rows = p.full ? n : k;
  char job = !p.vectors ? 'N' : p.full ? 'A' : 'S';
  auto run = [&](int64_t i, T* work, int size, int* whole_work) {
    T *u = p.vectors ? p.u.data<T>() + i * m * u_columns : nullptr,
      *vh = p.vectors ? p.vh.data<T>() + i * v_rows * n : nullptr;
    return gesdd<T>(LAPACK_COL_MAJOR, job, static_cast<int>(m), static_cast<int>(n),
                    p.a.data<T>() + i * m * n, static_cast<int>(m), p.s.data<T>() + i * k, u,
                    static_cast<int>(m), vh, step_of(static_cast<int>(v_rows)), work, size,
                    whole_work);
  };
  T asked = 0;
  int unused = 0;
  run(0, &asked, -1, &unused);
  int size = work_length(asked);
  for_matrices(product_of(batch_of(p.a.get())),
               static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k) * 12,
               [&](int64_t lo, int64_t hi) {
                 auto work = scratch<T>(size);
                 auto whole_work = scratch<int>(8 * k);
                 for (int64_t i = lo; i < hi; ++i)
                   infos[i] = !is_finite(p.a.data<T>() + i * m * n, m * n)
                                  ? -4
                                  : run(i, work.get(), size, whole_work.get());
               });
}

Parts parts_of(const tn_tensor* a, bool full, bool vectors) {
  int m = rows_of(a), n = columns_of(a), k = std::min(m, n);
  Sizes batch = batch_of(a);
  auto part = [&](int64_t rows, int64_t columns) {
    return vectors ? by_columns(with(batch, {rows, columns}), a->dtype)
                   : tensor::empty(std::array<int64_t, 1>{0}, a->dtype);
  };
  return {copy_by_columns(a),    part(m, full ? m : k), tensor::empty(with(batch, {k}), a->dtype),
          part(full ? n : k, n), full && vectors,       vectors};
}

}  // namespace

bool svd(const kernel_call& call) {
  const tn_tensor* a = call.tensor_at(0);
  if (!is_matrices(a)) return false;
  if (call.args[3].kind != TN_ARG_NONE)
    throw tenon::plugin::error(TN_UNIMPLEMENTED,
                               "linalg_svd: a driver can be chosen on CUDA only; leave it out");
  bool vectors = flag_at(call, 2);
  Parts parts = parts_of(a, flag_at(call, 1), vectors);
  std::vector<int32_t> infos(static_cast<size_t>(product_of(batch_of(a))), 0);
  if (a->numel)
    by_dtype(a->dtype, [&]<class T>() { decompose<T>(parts, infos.data()); });
  else if (vectors)
    fill_unit(parts.u), fill_unit(parts.vh);
  check_converged("linalg_svd", infos, batch_of(a),
                  ": the matrix is ill-conditioned, or has too many repeated singular values");
  call.give(0, std::move(parts.u));
  call.give(1, std::move(parts.s));
  call.give(2, std::move(parts.vh));
  return true;
}

}  // namespace lapack
