// Matrix products on the CPU: C = alpha op(A) op(B) + beta C, row-major.
#pragma once

#include <tenon/half.h>

#include <cstdint>

namespace tenon::kernels {

enum class Trans : bool { no, yes };

/// The type of alpha, beta and of the sums: float for the 16-bit types.
template <class T>
struct GemmScale {
  using type = T;
};
template <>
struct GemmScale<Half> {
  using type = float;
};
template <>
struct GemmScale<BFloat16> {
  using type = float;
};

/// One product, or `batch` products at constant distances.
///   op(A) is m x k: A(i, p) = a[i * lda + p], or a[p * lda + i] when trans_a is yes;
///   op(B) is k x n: B(p, j) = b[p * ldb + j], or b[j * ldb + p] when trans_b is yes;
///   C is m x n at c[i * ldc + j].
/// Leading dimensions are at least the length of a stored row. C overlaps neither A nor B, and the
/// matrices C of a batch do not overlap each other; stride_a and stride_b may be 0. C is not read
/// when beta is 0. Any size may be 0.
template <class T>
struct Gemm {
  using Scale = typename GemmScale<T>::type;
  Trans trans_a = Trans::no;
  Trans trans_b = Trans::no;
  int64_t m = 0, n = 0, k = 0;
  Scale alpha = 1;
  const T* a = nullptr;
  int64_t lda = 0;
  const T* b = nullptr;
  int64_t ldb = 0;
  Scale beta = 0;
  T* c = nullptr;
  int64_t ldc = 0;
  int64_t batch = 1;
  int64_t stride_a = 0, stride_b = 0, stride_c = 0;
};

/// Computes it on the threads of the pool; called from within parallel work, on this thread. T is
/// float, double, Half, BFloat16 or an integer of 8 to 64 bits (sums wrap). An element of C is the
/// same for any number of threads.
template <class T>
void gemm(const Gemm<T>& call);

template <class T>
void gemm(Trans trans_a, Trans trans_b, int64_t m, int64_t n, int64_t k,
          typename GemmScale<T>::type alpha, const T* a, int64_t lda, const T* b, int64_t ldb,
          typename GemmScale<T>::type beta, T* c, int64_t ldc) {
  gemm(Gemm<T>{.trans_a = trans_a,
               .trans_b = trans_b,
               .m = m,
               .n = n,
               .k = k,
               .alpha = alpha,
               .a = a,
               .lda = lda,
               .b = b,
               .ldb = ldb,
               .beta = beta,
               .c = c,
               .ldc = ldc});
}

}  // namespace tenon::kernels
