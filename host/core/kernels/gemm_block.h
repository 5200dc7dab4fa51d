// The packed product of one block of C on the calling thread: shared by gemm.cpp and conv.cpp.
#pragma once

#include "core/kernels/level_table.h"
#include "core/tensor/allocator.h"

#include <algorithm>
#include <cstdint>

namespace tenon::kernels {

inline int64_t round_up(int64_t n, int64_t step) { return (n + step - 1) / step * step; }

/// Steps of the packed product. A panel of B (depth x tile columns, 32 KB at most) stays in the
/// first-level cache while the block of A (rows x depth, 240 KB at most) runs past it from the
/// second; `columns` bounds the packed part of B to the size of a last-level slice.
inline constexpr int64_t block_depth = 256;
inline constexpr int64_t block_rows = 240;  // a multiple of every level's tile rows
inline constexpr int64_t block_columns = 1024;

/// One tile of C, also at the edges, where only rows x columns of it exist.
template <class T>
void run_tile(const GemmLevel<T>& level, int64_t rows, int64_t columns, int64_t k, const T* a,
              const T* b, int64_t b_step, T alpha, T beta, T* c, int64_t ldc) {
  const auto micro_kernel = level.micro_kernels[rows - 1];
  if (columns == level.tile_columns) return micro_kernel(k, a, b, b_step, alpha, beta, c, ldc);
  T whole[most_tile_rows * most_tile_columns];
  micro_kernel(k, a, b, b_step, alpha, T(0), whole, level.tile_columns);
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j) {
      T& at = c[i * ldc + j];
      const T sum = whole[i * level.tile_columns + j];
      at = beta == T(0) ? sum : sum + beta * at;
    }
}

/// C = alpha * A B + beta * C of packed panels: A in panels of tile_rows rows, each `k` deep and
/// a_panel elements long; B likewise by tile_columns.
template <class T>
void run_panels(const GemmLevel<T>& level, int64_t m, int64_t n, int64_t k, const T* a,
                int64_t a_panel, const T* b, int64_t b_panel, T alpha, T beta, T* c, int64_t ldc) {
  for (int64_t j = 0; j < n; j += level.tile_columns, b += b_panel) {
    const int64_t columns = std::min(level.tile_columns, n - j);
    const T* left = a;
    for (int64_t i = 0; i < m; i += level.tile_rows, left += a_panel)
      run_tile(level, std::min(level.tile_rows, m - i), columns, k, left, b, level.tile_columns,
               alpha, beta, c + i * ldc + j, ldc);
  }
}

/// Packs rows [0, m) of `k` columns of op(A), in panels one after the other; x is the first
/// element.
template <class T>
void pack_rows(const GemmLevel<T>& level, bool transposed, const T* x, int64_t ld, int64_t m,
               int64_t k, T* panels) {
  const int64_t width = level.tile_rows;
  for (int64_t i = 0; i < m; i += width, panels += width * k) {
    const int64_t n = std::min(width, m - i);
    if (transposed)
      level.pack_straight(x + i, ld, n, k, width, panels);
    else
      level.pack_transposed(x + i * ld, ld, n, k, width, panels);
  }
}
/// The same for columns [0, n) of op(B).
template <class T>
void pack_columns(const GemmLevel<T>& level, bool transposed, const T* x, int64_t ld, int64_t n,
                  int64_t k, T* panels) {
  const int64_t width = level.tile_columns;
  for (int64_t j = 0; j < n; j += width, panels += width * k) {
    const int64_t m = std::min(width, n - j);
    if (transposed)
      level.pack_transposed(x + j * ld, ld, m, k, width, panels);
    else
      level.pack_straight(x + j, ld, m, k, width, panels);
  }
}

}  // namespace tenon::kernels
