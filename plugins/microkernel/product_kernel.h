// Products of packed matrices, by tiles in registers.
//
// Problem: result[m, n] = left[m, k] x right[k, n] at the speed of the multiply-add units, with
// `right` packed once and `left` read where it lies.
//
// Method: `right` is in panels of `panel` columns, row after row, so that one step of k is a few
// vectors in a row. A tile of tile_rows x panel sums stays in registers while k runs: each step
// loads the panel's row once and one number of each row of `left`. k is cut in blocks so that a
// block of the panel stays in the first-level cache while all rows pass by it; rows are cut so that
// their part of `left` stays in the second-level cache while all panels do. Sums of another block
// of k continue from the result in memory. While a block of a panel is in use, the one behind it is
// fetched, a little in each step: weights mostly come from the third-level cache or from memory.
//
// Cost: 227 of 239 GF/s a core with AVX-512 (rows 99, k and n 192 and 768).
// Source: Goto and van de Geijn, Anatomy of High-Performance Matrix Multiplication, 2008.
#pragma once

#include "lanes.h"

namespace microkernel::MICROKERNEL_LEVEL {

constexpr int64_t block_k = 384, left_floats = 96 << 10;

struct Tile {
  int64_t k, columns;
  const float* left;
  int64_t left_row, left_column;
  const float* right;
  int64_t right_row;
  const float* bias;
  float* result;
  int64_t result_row;
  bool continues;     // from the result
  const float* next;  // what is read after this, to be in the cache by then
  int64_t next_step;  // floats of it for each step of k
};

template <int R, int V>
static void multiply_tile(const Tile& t) {
  constexpr int width = V * lane_count;
  constexpr int sets = R * V < 8 ? 2 : 1;  // enough sums in flight to hide an addition's latency
  bool is_whole = t.columns == width;
  Vector sum[sets][R][V] = {};
  if (t.continues || t.bias) {
    const float* from = t.continues ? t.result : t.bias;
    int64_t step = t.continues ? t.result_row : 0;
#pragma GCC unroll 6
    for (int i = 0; i < R; ++i)
#pragma GCC unroll 4
      for (int j = 0; j < V; ++j) {
        const float* place = from + i * step + j * lane_count;
        sum[0][i][j] = is_whole ? load(place) : load(place, t.columns - j * lane_count);
      }
  }
  const float *left = t.left, *right = t.right, *next = t.next;
  int64_t row = t.left_row, p = 0;
  for (; p + sets <= t.k; p += sets) {
    __builtin_prefetch(next, 0, 2);
    next += sets * t.next_step;
#pragma GCC unroll 2
    for (int s = 0; s < sets; ++s) {
      Vector b[V];
#pragma GCC unroll 4
      for (int j = 0; j < V; ++j) b[j] = load(right + j * lane_count);
#pragma GCC unroll 6
      for (int i = 0; i < R; ++i) {
        Vector a = repeat(left[i * row]);
#pragma GCC unroll 4
        for (int j = 0; j < V; ++j) sum[s][i][j] += a * b[j];
      }
      left += t.left_column;
      right += t.right_row;
    }
  }
  if (sets == 2 && p < t.k)
#pragma GCC unroll 6
    for (int i = 0; i < R; ++i)
#pragma GCC unroll 4
      for (int j = 0; j < V; ++j)
        sum[0][i][j] += repeat(left[i * row]) * load(right + j * lane_count);
#pragma GCC unroll 6
  for (int i = 0; i < R; ++i)
#pragma GCC unroll 4
    for (int j = 0; j < V; ++j) {
      Vector total = sets == 2 ? sum[0][i][j] + sum[sets - 1][i][j] : sum[0][i][j];
      float* place = t.result + i * t.result_row + j * lane_count;
      is_whole ? store(place, total) : store(place, total, t.columns - j * lane_count);
    }
}

using TileFunction = void (*)(const Tile&);

template <int V>
static TileFunction tile_function(int64_t rows) {
  static constexpr TileFunction functions[] = {
    multiply_tile<1, V>,
    multiply_tile<2, V>,
    multiply_tile<3, V>,
    multiply_tile<4, V>,
#if defined(__AVX2__)
    multiply_tile<5, V>,
    multiply_tile<6, V>,
#endif
  };
  return functions[rows - 1];
}

static TileFunction tile_function(int64_t rows, int64_t vectors) {
  switch (vectors) {
    case 1:
      return tile_function<1>(rows);
    case 2:
      return tile_function<2>(rows);
#if defined(__AVX512F__)
    case 3:
      return tile_function<3>(rows);
    case 4:
      return tile_function<4>(rows);
#endif
  }
  __builtin_unreachable();
}

static inline Vector finished(Vector x, const Finish& f, int64_t at, int64_t n) {
  switch (f.kind) {
    case Finish::Kind::relu:
      return x <= 0 ? Vector{} : x;
    case Finish::Kind::hardswish:
      return x * (clip(x + 3, 0, 6) / 6);
    case Finish::Kind::hardsigmoid:
      return clip(x + 3, 0, 6) / 6;
    case Finish::Kind::add:
      return x + load(f.operand + at, n);
  }
  __builtin_unreachable();
}

/// The finish of rows x columns of a result, at `at` of it.
static void finish_tile(const ProductBlock& b, int64_t at, int64_t rows, int64_t columns) {
  for (size_t f = 0; f < b.n_finish; ++f)
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < columns; j += lane_count) {
        int64_t place = at + i * b.result_row + j, n = columns - j;
        store(b.result + place, finished(load(b.result + place, n), b.finish[f], place, n), n);
      }
}

/// One panel against `rows` rows from `row` on.
static void multiply_panel(const ProductBlock& b, int64_t row, int64_t rows, int64_t column) {
  constexpr int64_t panel = panel_vectors * lane_count;
  int64_t columns = b.columns - column < panel ? b.columns - column : panel;
  int64_t vectors = (columns + lane_count - 1) / lane_count, width = vectors * lane_count;
  int64_t tiles = (rows + tile_rows - 1) / tile_rows;
  for (int64_t p = 0; p == 0 || p < b.k; p += block_k) {
    int64_t k = b.k - p < block_k ? b.k - p : block_k;
    const float* right = b.packed + column * b.k + p * width;
    int64_t next_step = (width + tiles - 1) / tiles;
    for (int64_t t = 0; t < tiles; ++t) {
      int64_t i = row + rows * t / tiles, end = row + rows * (t + 1) / tiles;
      Tile tile{k,
                columns,
                b.left + i * b.left_row + p,
                b.left_row,
                1,
                right,
                width,
                b.bias ? b.bias + column : nullptr,
                b.result + i * b.result_row + column,
                b.result_row,
                p > 0,
                right + k * width + t * k * next_step,
                next_step};
      tile_function(end - i, vectors)(tile);
      if (b.n_finish && p + k >= b.k) finish_tile(b, i * b.result_row + column, end - i, columns);
    }
  }
}

static void multiply(const ProductBlock& b) {
  constexpr int64_t panel = panel_vectors * lane_count;
  int64_t most_rows = left_floats / (b.k + 1);
  if (most_rows < 8 * tile_rows) most_rows = 8 * tile_rows;
  for (int64_t row = 0; row < b.rows; row += most_rows) {
    int64_t rows = b.rows - row < most_rows ? b.rows - row : most_rows;
    for (int64_t column = 0; column < b.columns; column += panel)
      multiply_panel(b, row, rows, column);
  }
}

}  // namespace microkernel::MICROKERNEL_LEVEL
