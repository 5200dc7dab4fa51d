// The routines of LAPACK and BLAS in use, one name for f32 and f64. Matrices lie column by column,
// so that LAPACKE hands them on as they are.
#pragma once

#include <cblas.h>
#include <lapacke.h>

#include <type_traits>

namespace lapack {

namespace detail {

template <class T, class F, class D>
constexpr auto pick(F single, D twice) {
  if constexpr (std::is_same_v<T, float>)
    return single;
  else
    return twice;
}

}  // namespace detail

#define TENON_LAPACK_ROUTINE(name) \
  template <class T>               \
  inline constexpr auto name = detail::pick<T>(&LAPACKE_s##name##_work, &LAPACKE_d##name##_work)

TENON_LAPACK_ROUTINE(potrf);  // Cholesky
TENON_LAPACK_ROUTINE(potrs);
TENON_LAPACK_ROUTINE(getrf);  // LU
TENON_LAPACK_ROUTINE(getrs);
TENON_LAPACK_ROUTINE(geqrf);  // QR
TENON_LAPACK_ROUTINE(orgqr);
TENON_LAPACK_ROUTINE(ormqr);
TENON_LAPACK_ROUTINE(syevd);  // symmetric eigenvalues
TENON_LAPACK_ROUTINE(geev);   // eigenvalues
TENON_LAPACK_ROUTINE(gesdd);  // singular values
TENON_LAPACK_ROUTINE(gels);   // least squares
TENON_LAPACK_ROUTINE(gelsy);
TENON_LAPACK_ROUTINE(gelsd);
TENON_LAPACK_ROUTINE(gelss);
TENON_LAPACK_ROUTINE(sytrf);  // LDL^T
TENON_LAPACK_ROUTINE(sytrs);
#undef TENON_LAPACK_ROUTINE

template <class T>
inline constexpr auto trsm = detail::pick<T>(&cblas_strsm, &cblas_dtrsm);
template <class T>
inline constexpr auto gemm = detail::pick<T>(&cblas_sgemm, &cblas_dgemm);

}  // namespace lapack
