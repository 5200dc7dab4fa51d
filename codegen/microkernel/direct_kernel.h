// Sums in f64 of a few rows times a few vectors; direct.h says for what.
#pragma once

#include "lanes.h"

namespace microkernel::MICROKERNEL_LEVEL {

#if defined(__AVX2__)
constexpr int direct_rows_here = 6;
#else
constexpr int direct_rows_here = 4;
#endif
static_assert(direct_rows_here <= most_direct_rows);
using Wide = LanesOf<double>::Vector;
constexpr int wide_count = LanesOf<double>::count;

template <int V, bool is_whole>
static void sum_of_products(const DirectBlock& b) {
  constexpr int R = direct_rows_here;
  Wide sum[R][V] = {};
  for (int64_t run = 0; run < b.n_runs; ++run) {
    const double* a[R];
#pragma GCC unroll 6
    for (int i = 0; i < R; ++i) a[i] = b.runs[run].rows[i];
    const double* right = b.runs[run].right;
    int64_t n = b.runs[run].n;
    for (int64_t k = 0; k < n; ++k) {
      Wide w[V];
#pragma GCC unroll 4
      for (int j = 0; j < V; ++j)
        w[j] = is_whole ? load(right + j * wide_count)
                        : load(right + j * wide_count, b.columns - j * wide_count);
#pragma GCC unroll 6
      for (int i = 0; i < R; ++i) {
        Wide x = repeat<double>(a[i][k * b.row_step]);
#pragma GCC unroll 4
        for (int j = 0; j < V; ++j) sum[i][j] += x * w[j];
      }
      right += b.right_step;
    }
  }
#pragma GCC unroll 6
  for (int i = 0; i < R; ++i)
#pragma GCC unroll 4
    for (int j = 0; j < V; ++j) store(b.sums + (i * V + j) * wide_count, sum[i][j]);
}

static void sum_directly(const DirectBlock& b) {
  bool is_whole = b.is_padded || b.columns % wide_count == 0;
  switch ((b.columns + wide_count - 1) / wide_count) {
    case 1:
      return is_whole ? sum_of_products<1, true>(b) : sum_of_products<1, false>(b);
    case 2:
      return is_whole ? sum_of_products<2, true>(b) : sum_of_products<2, false>(b);
#if defined(__AVX512F__)
    case 3:
      return is_whole ? sum_of_products<3, true>(b) : sum_of_products<3, false>(b);
    case 4:
      return is_whole ? sum_of_products<4, true>(b) : sum_of_products<4, false>(b);
#endif
  }
  __builtin_unreachable();
}

}  // namespace microkernel::MICROKERNEL_LEVEL
