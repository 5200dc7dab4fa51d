// What each copy of the compute kernels exports: one table per CPU level, of plain functions.
//
// Drivers (gemm.cpp, conv.cpp, rows/*.cpp) split the work, own the scratch
// and the threads; the functions here are the inner loops. They use no threads and no memory but
// their arguments and the stack. Pointers need only the alignment of their type.
#pragma once

#include "core/cpu_level.h"

#include <cstdint>

namespace tenon::kernels {

/// The largest tile of any level and type, in elements: rows and columns.
inline constexpr int64_t most_tile_rows = 12;
inline constexpr int64_t most_tile_columns = 32;

/// Micro-kernels of matrix products. A tile has `tile_rows` x `tile_columns` elements of C.
template <class T>
struct GemmLevel {
  int64_t tile_rows, tile_columns;
  int64_t wide_columns;  ///< of `wide_micro_kernels`

  /// C[0..rows) x [0..tile_columns) = alpha * A B + beta * C; C is not read when beta is 0.
  /// a[p * tile_rows + i] is A(i, p); b[p * b_step + j] is B(p, j).
  using MicroKernel = void (*)(int64_t k, const T* a, const T* b, int64_t b_step, T alpha, T beta,
                               T* c, int64_t ldc);
  MicroKernel micro_kernels[most_tile_rows];  ///< by rows - 1
  MicroKernel wide_micro_kernels[3];  ///< by rows - 1: `wide_columns` columns, for up to 3 rows

  /// panel[p * width + i] = x[i * ld + p] (transposing) or x[p * ld + i], for i < n, p < k; zero
  /// for n <= i < width. `width` is a multiple of 4.
  void (*pack_transposed)(const T* x, int64_t ld, int64_t n, int64_t k, int64_t width, T* panel);
  void (*pack_straight)(const T* x, int64_t ld, int64_t n, int64_t k, int64_t width, T* panel);

  /// out[i * row + j * column] = alpha * dot(a + i * lda, b + j * ldb) + beta * out, for i < m, j <
  /// n, over k consecutive elements.
  void (*dots)(int64_t m, int64_t n, int64_t k, const T* a, int64_t lda, const T* b, int64_t ldb,
               T alpha, T beta, T* out, int64_t row, int64_t column);
};

enum class WideFold : uint8_t { squares, magnitudes, product };

/// Loops over rows of consecutive elements. Where a function has `x` and `y`, they may be equal.
template <class T>
struct RowLevel {
  void (*exp)(const T* x, T* y, int64_t n);
  void (*softmax)(const T* x, T* y, int64_t n, bool logarithm);
  /// The same for each of `width` columns: element p of column j is x[p * stride + j].
  void (*softmax_columns)(const T* x, T* y, int64_t n, int64_t stride, int64_t width,
                          bool logarithm);
  T (*sum)(const T* x, int64_t n);
  /// The sum of squares or of magnitudes, or the product, in double.
  double (*fold_wide)(WideFold fold, const T* x, int64_t n);
  /// out[j] = sum of x[p * stride + j] over p < n.
  void (*sum_columns)(const T* x, T* out, int64_t n, int64_t stride, int64_t width);
  /// out[j] = sum over p < k of the squares (or the magnitudes) of a[p] - b[p * stride + j], j < n.
  void (*differences)(const T* a, const T* b, int64_t stride, int64_t k, int64_t n, bool squares,
                      T* out);
  /// Mean, and the sum of squared differences from it.
  void (*moments)(const T* x, int64_t n, T* mean, T* m2);
  /// y = (x - mean) * rstd * weight + bias; weight and bias may be null.
  void (*normalize)(const T* x, T* y, int64_t n, T mean, T rstd, const T* weight, const T* bias);
  /// y = (x - center) * scale + shift.
  void (*scale)(const T* x, T* y, int64_t n, T center, T scale, T shift);
  /// The extreme of `best` and x[0..n); a NaN is more extreme than all, and stays.
  T (*largest)(const T* x, int64_t n, T best);
  T (*smallest)(const T* x, int64_t n, T best);
  /// The same element by element: best[i] with x[i].
  void (*largest_of_each)(const T* x, T* best, int64_t n);
  void (*smallest_of_each)(const T* x, T* best, int64_t n);
  /// out[i] = bias + sum over t of weights[t] * taps[t][i].
  void (*weighted_sum)(T* out, int64_t n, const T* const* taps, const T* weights, int64_t n_taps,
                       T bias);
};

/// c[i * ldc + j] += a[i * row + p * column] * b[p * ldb + j], modulo 2^bits.
template <class U>
using IntegerBlock = void (*)(int64_t m, int64_t n, int64_t k, const U* a, int64_t row,
                              int64_t column, const U* b, int64_t ldb, U* c, int64_t ldc);

struct KernelTable {
  GemmLevel<float> gemm_f32;
  GemmLevel<double> gemm_f64;
  RowLevel<float> rows_f32;
  RowLevel<double> rows_f64;
  IntegerBlock<uint8_t> integers_8;
  IntegerBlock<uint16_t> integers_16;
  IntegerBlock<uint32_t> integers_32;
  IntegerBlock<uint64_t> integers_64;
  // Bits of bf16 and f16 to float and, rounded to nearest even, back.
  void (*from_bf16)(const uint16_t* x, float* y, int64_t n);
  void (*from_f16)(const uint16_t* x, float* y, int64_t n);
  void (*to_bf16)(const float* x, uint16_t* y, int64_t n);
  void (*to_f16)(const float* x, uint16_t* y, int64_t n);
};

/// The table of a level; it must be one that this machine has.
const KernelTable& kernel_table(CpuLevel level);
/// The table that kernels run with: that of cpu_level() unless a test has chosen another.
const KernelTable& kernel_table();
/// For tests: makes every later kernel use `level`. Not while kernels run.
void use_kernel_level(CpuLevel level);

template <class T>
const GemmLevel<T>& gemm_level();
template <>
inline const GemmLevel<float>& gemm_level<float>() {
  return kernel_table().gemm_f32;
}
template <>
inline const GemmLevel<double>& gemm_level<double>() {
  return kernel_table().gemm_f64;
}
template <class T>
const RowLevel<T>& row_level();
template <>
inline const RowLevel<float>& row_level<float>() {
  return kernel_table().rows_f32;
}
template <>
inline const RowLevel<double>& row_level<double>() {
  return kernel_table().rows_f64;
}

}  // namespace tenon::kernels
