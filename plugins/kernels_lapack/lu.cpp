// LU factors with partial pivoting.
#include "lu.h"

#include "kernels.h"
#include "routines.h"

namespace lapack {

namespace {

template <class T>
void factor(const Factors& f) {
  int rows = rows_of(f.lu.get()), columns = columns_of(f.lu.get()), n = std::min(rows, columns);
  auto* pivots = f.pivots.data<int32_t>();
  auto* infos = f.infos.data<int32_t>();
  for_matrices(
      f.infos->numel, static_cast<double>(rows) * columns * n, [&](int64_t lo, int64_t hi) {
        for (int64_t i = lo; i < hi; ++i)
          infos[i] = n ? getrf<T>(LAPACK_COL_MAJOR, rows, columns,
                                  f.lu.data<T>() + i * rows * columns, rows, pivots + i * n)
                       : 0;
      });
}

Factors factors_of(const tn_tensor* a, tensor copy) {
  Sizes batch = batch_of(a);
  int64_t n = std::min(rows_of(copy.get()), columns_of(copy.get()));
  Factors f{std::move(copy), tensor::empty(with(batch, {n}), TN_I32), tensor::empty(batch, TN_I32),
            batch};
  by_dtype(a->dtype, [&]<class T>() { factor<T>(f); });
  return f;
}

}  // namespace

Factors factored(const tn_tensor* a) { return factors_of(a, copy_by_columns(a)); }

Factors factored_as_it_lies(const tn_tensor* a, bool& turned) {
  turned = a->flags & TN_T_CONTIGUOUS;
  if (!turned) return factored(a);
  return factors_of(a, copy_by_columns(transposed(a).get()));
}

bool lu_factor(const kernel_call& call) {
  const tn_tensor* a = call.tensor_at(0);
  if (!is_matrices(a)) return false;
  if (!flag_at(call, 1))
    throw tenon::plugin::error(TN_UNIMPLEMENTED,
                               "linalg_lu_factor: factors without pivots are not computed on the "
                               "CPU; call it with pivot=True");
  Factors f = factored(a);
  int64_t i = flag_at(call, 2) ? first_broken(f.infos) : -1;
  if (i >= 0)
    refuse(
        "{}pivot {} is zero, so that the factors cannot solve a system; call "
        "linalg_lu_factor_ex for the factors alone",
        place_of("linalg_lu_factor", f.batch, i), f.infos.data<int32_t>()[i]);
  call.give(0, std::move(f.lu));
  call.give(1, std::move(f.pivots));
  call.give(2, std::move(f.infos));
  return true;
}

}  // namespace lapack
