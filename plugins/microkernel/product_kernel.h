// Products of packed matrices, by tiles in registers.
//
// Problem: result[m, n] = left[m, k] x right[k, n] at the speed of the multiply-add units, with
// `right` packed once and `left` read where it lies.
//
// Method: `right` is in panels of up to panel_vectors vectors of columns, row after row, so that
// one step of k is a few vectors in a row. A tile of rows x panel sums stays in registers while k
// runs: each step loads the panel's row once and one number of each row of `left`. k is cut in
// blocks so that a block of the panel stays in the first-level cache while all rows pass by it;
// rows are cut so that their part of `left` stays in the second-level cache while all panels do.
// Sums of another block of k continue from the result in memory. While a block of a panel is in
// use, the one behind it is fetched, a little in each step: weights mostly come from the
// third-level cache or from memory.
//
// Cost: 227 of 239 GF/s a core with AVX-512 (rows 99, k and n 192 and 768).
// Source: Goto and van de Geijn, Anatomy of High-Performance Matrix Multiplication, 2008.
#pragma once

#include "lanes.h"

namespace microkernel::MICROKERNEL_LEVEL {

constexpr int64_t block_k = 384, left_floats = 128 << 10;

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
  const Finish* finish = nullptr;
  size_t n_finish = 0;
  int64_t place = 0;  // of the tile in the operands of `finish`
};

static inline Vector finished(Vector x, Finish::Kind kind, const float* operand, float factor,
                              int64_t n) {
  switch (kind) {
    case Finish::Kind::relu:
      return x <= 0 ? Vector{} : x;
    case Finish::Kind::hardswish:
      return x * (clip(x + 3, 0, 6) / 6);
    case Finish::Kind::hardsigmoid:
      return clip(x + 3, 0, 6) / 6;
    case Finish::Kind::scale:
      return x * factor;
    case Finish::Kind::add:
      return x + load(operand, n);
  }
  __builtin_unreachable();
}

template <int R, int V, Finish::Kind kind>
static inline void finish_sums(const Tile& t, const Finish& f, Vector (&sum)[R][V]) {
  const float* operand = f.operand + t.place;
#pragma GCC unroll 12
  for (int i = 0; i < R; ++i)
#pragma GCC unroll 4
    for (int j = 0; j < V; ++j)
      sum[i][j] = finished(sum[i][j], kind, operand + i * t.result_row + j * lane_count, f.factor,
                           t.columns - j * lane_count);
}
template <int R, int V>
static inline void finish_sums(const Tile& t, Vector (&sum)[R][V]) {
  for (const Finish* f = t.finish; f < t.finish + t.n_finish; ++f) {
    switch (f->kind) {
      case Finish::Kind::relu:
        finish_sums<R, V, Finish::Kind::relu>(t, *f, sum);
        break;
      case Finish::Kind::hardswish:
        finish_sums<R, V, Finish::Kind::hardswish>(t, *f, sum);
        break;
      case Finish::Kind::hardsigmoid:
        finish_sums<R, V, Finish::Kind::hardsigmoid>(t, *f, sum);
        break;
      case Finish::Kind::scale:
        finish_sums<R, V, Finish::Kind::scale>(t, *f, sum);
        break;
      case Finish::Kind::add:
        finish_sums<R, V, Finish::Kind::add>(t, *f, sum);
        break;
    }
  }
}

template <int R, int V>
static void multiply_tile(const Tile& t) {
  constexpr int width = V * lane_count;
  bool is_whole = t.columns == width;
  Vector sum[R][V] = {};
  if (t.continues || t.bias) {
    const float* from = t.continues ? t.result : t.bias;
    int64_t step = t.continues ? t.result_row : 0;
#pragma GCC unroll 12
    for (int i = 0; i < R; ++i)
#pragma GCC unroll 4
      for (int j = 0; j < V; ++j) {
        const float* place = from + i * step + j * lane_count;
        sum[i][j] = is_whole ? load(place) : load(place, t.columns - j * lane_count);
      }
  }
  const float *left = t.left, *right = t.right, *next = t.next;
  int64_t row = t.left_row;
  for (int64_t p = 0; p < t.k; ++p) {
    __builtin_prefetch(next, 0, 2);
    next += t.next_step;
    Vector b[V];
#pragma GCC unroll 4
    for (int j = 0; j < V; ++j) b[j] = load(right + j * lane_count);
#pragma GCC unroll 12
    for (int i = 0; i < R; ++i) {
      Vector a = repeat(left[i * row]);
#pragma GCC unroll 4
      for (int j = 0; j < V; ++j) sum[i][j] += a * b[j];
    }
    left += t.left_column;
    right += t.right_row;
  }
  if (t.n_finish) finish_sums(t, sum);
#pragma GCC unroll 12
  for (int i = 0; i < R; ++i)
#pragma GCC unroll 4
    for (int j = 0; j < V; ++j) {
      float* place = t.result + i * t.result_row + j * lane_count;
      is_whole ? store(place, sum[i][j]) : store(place, sum[i][j], t.columns - j * lane_count);
    }
}

using TileFunction = void (*)(const Tile&);

template <int V>
struct TileFunctions {
  static constexpr int most = tile_rows(V);
  TileFunction by_rows[most];

  template <int R>
  constexpr void fill() {
    by_rows[R - 1] = multiply_tile<R, V>;
    if constexpr (R > 1) fill<R - 1>();
  }
  constexpr TileFunctions() : by_rows{} { fill<most>(); }
};

template <int V>
static TileFunction tile_function(int64_t rows) {
  static constexpr TileFunctions<V> functions;
  return functions.by_rows[rows - 1];
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

/// `rows` rows from `row` on of one panel, for one block of k from p on.
static void multiply_panel(const ProductBlock& b, int64_t row, int64_t rows, int64_t panel,
                           int64_t p) {
  int64_t column = b.column(panel, lane_count), columns = b.column(panel + 1, lane_count) - column;
  int64_t vectors = (columns + lane_count - 1) / lane_count, width = vectors * lane_count;
  int64_t tiles = (rows + tile_rows(vectors) - 1) / tile_rows(vectors);
  int64_t k = b.k - p < block_k ? b.k - p : block_k;
  int64_t right_row = b.right_row ? b.right_row : width;
  const float* right = b.right + (b.right_row ? column : column * b.k) + p * right_row;
  int64_t next_step = (width + tiles - 1) / tiles;
  for (int64_t t = 0; t < tiles; ++t) {
    int64_t i = row + rows * t / tiles, end = row + rows * (t + 1) / tiles;
    int64_t place = b.place + i * b.result_row + column;
    Tile tile{k,
              columns,
              b.left + i * b.left_row + p * b.left_column,
              b.left_row,
              b.left_column,
              right,
              right_row,
              b.bias ? b.bias + column : nullptr,
              b.result + place,
              b.result_row,
              p > 0,
              right + k * width + t * k * next_step,
              next_step};
    if (p + k >= b.k) tile.finish = b.finish, tile.n_finish = b.n_finish, tile.place = place;
    tile_function(end - i, vectors)(tile);
  }
}

static void multiply_rows(const ProductBlock& b, int64_t row, int64_t rows) {
  // All of these rows of `left` stay in the cache while panels pass by, or a block of k of them
  // does: then sums wait in the result.
  bool is_short = rows * b.k <= left_floats;
  if (is_short)
    for (int64_t panel = b.panel; panel < b.panel_end; ++panel)
      for (int64_t p = 0; p == 0 || p < b.k; p += block_k) multiply_panel(b, row, rows, panel, p);
  else
    for (int64_t p = 0; p < b.k; p += block_k)
      for (int64_t panel = b.panel; panel < b.panel_end; ++panel)
        multiply_panel(b, row, rows, panel, p);
}

static void multiply(const ProductBlock& b) {
  // Of a small `right`, the result counts too: its rows are written by panels, best in the cache.
  constexpr int64_t small_right = 32 << 10, fewest_rows = 48;
  int64_t most_rows = left_floats / (b.k < block_k ? b.k + 1 : block_k);
  if (b.k * b.n <= small_right) most_rows = left_floats / 4 / (b.k + b.n + 1);
  if (most_rows < fewest_rows) most_rows = fewest_rows;
  int64_t rows = b.row_end - b.row, blocks = (rows + most_rows - 1) / most_rows;
  for (int64_t i = 0; i < blocks; ++i) {
    int64_t begin = rows * i / blocks, end = rows * (i + 1) / blocks;
    multiply_rows(b, b.row + begin, end - begin);
  }
}

}  // namespace microkernel::MICROKERNEL_LEVEL
