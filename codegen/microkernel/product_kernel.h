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
// Sums of another block of k are added to the result in memory, or, where that is rounded, to
// memory of few rows of one panel: so no chain of additions is longer than a block, and errors do
// not grow with k. While a block of a panel is in use, the one behind it is
// fetched, a little in each step: weights mostly come from the third-level cache or from memory.
// Of a single row a panel has too few sums to hide how long an addition takes: a tile is that row
// of several panels then, whose lines the processor fetches by itself.
//
// Cost: 227 of 239 GF/s a core with AVX-512 (rows 99, k and n 192 and 768).
// Source: Goto and van de Geijn, Anatomy of High-Performance Matrix Multiplication, 2008.
#pragma once

#include "elements.h"
#include "kernels.h"

namespace microkernel::MICROKERNEL_LEVEL {

constexpr int64_t block_steps = 256, left_bytes = 512 << 10;

template <class E>
struct Tile {
  using Number = typename E::Number;
  using Sum = typename E::Sum;
  int64_t k, columns;
  const Number* left;
  int64_t left_row, left_step;
  const Number* right;
  int64_t right_row;  // from a step of k to the next
  const Sum* first;   // what is added to sums, or null
  int64_t first_row;  // 0: each row with the same
  Sum* result;
  int64_t result_row;
  const Number* next;         // what is read after this, to be in the cache by then
  int64_t next_step;          // numbers of it for each step of k
  Number* rounded = nullptr;  // where it is stored instead, in rows of `rounded_row`
  int64_t rounded_row = 0;
  const Finish* finish = nullptr;
  size_t n_finish = 0;
  int64_t place = 0;        // of the tile in the operands of `finish`
  int64_t right_panel = 0;  // from a panel to the next, of a tile of several
};

template <class T, class V = typename LanesOf<T>::Vector>
static inline V finished(V x, Finish::Kind kind, V operand, T factor) {
  switch (kind) {
    case Finish::Kind::relu:
      return x < 0 ? V{} : x;
    case Finish::Kind::hardswish:
      return x * (clip<T>(x + 3, 0, 6) / 6);
    case Finish::Kind::hardsigmoid:
      return clip<T>(x + 3, 0, 6) / 6;
    case Finish::Kind::scale:
      return x * factor;
    case Finish::Kind::add:
      return x + operand;
  }
  __builtin_unreachable();
}

template <class E, int R, int V, Finish::Kind kind>
static inline void finish_sums(const Tile<E>& t, const Finish& f,
                               typename LanesOf<typename E::Sum>::Vector (&sum)[R][V]) {
  using Sum = typename E::Sum;
  constexpr int lanes = LanesOf<Sum>::count;
#pragma GCC unroll 12
  for (int i = 0; i < R; ++i)
#pragma GCC unroll 8
    for (int j = 0; j < V; ++j) {
      typename LanesOf<Sum>::Vector operand{};
      int64_t n = t.columns - j * lanes;
      if constexpr (kind == Finish::Kind::add && E::rounds) {
        if (t.rounded)
          operand = E::widened(static_cast<const typename E::Number*>(f.operand) + t.place +
                                   i * t.rounded_row + j * lanes,
                               n);
      }
      if (kind == Finish::Kind::add && !t.rounded)
        operand =
            load(static_cast<const Sum*>(f.operand) + t.place + i * t.result_row + j * lanes, n);
      sum[i][j] = finished<Sum>(sum[i][j], kind, operand, Sum(f.factor));
    }
}
template <class E, int R, int V>
static inline void finish_sums(const Tile<E>& t,
                               typename LanesOf<typename E::Sum>::Vector (&sum)[R][V]) {
  for (const Finish* f = t.finish; f < t.finish + t.n_finish; ++f) {
    switch (f->kind) {
      case Finish::Kind::relu:
        finish_sums<E, R, V, Finish::Kind::relu>(t, *f, sum);
        break;
      case Finish::Kind::hardswish:
        finish_sums<E, R, V, Finish::Kind::hardswish>(t, *f, sum);
        break;
      case Finish::Kind::hardsigmoid:
        finish_sums<E, R, V, Finish::Kind::hardsigmoid>(t, *f, sum);
        break;
      case Finish::Kind::scale:
        finish_sums<E, R, V, Finish::Kind::scale>(t, *f, sum);
        break;
      case Finish::Kind::add:
        finish_sums<E, R, V, Finish::Kind::add>(t, *f, sum);
        break;
    }
  }
}

template <class E, int R, int V>
static inline void store_sums(const Tile<E>& t,
                              typename LanesOf<typename E::Sum>::Vector (&sum)[R][V]) {
  constexpr int lanes = LanesOf<typename E::Sum>::count;
  bool is_whole = t.columns == V * lanes;
  if constexpr (E::rounds)
    if (t.rounded) {
#pragma GCC unroll 12
      for (int i = 0; i < R; ++i)
#pragma GCC unroll 8
        for (int j = 0; j < V; ++j)
          E::store_rounded(t.rounded + i * t.rounded_row + j * lanes, sum[i][j],
                           is_whole ? lanes : t.columns - j * lanes);
      return;
    }
#pragma GCC unroll 12
  for (int i = 0; i < R; ++i)
#pragma GCC unroll 8
    for (int j = 0; j < V; ++j) {
      auto* place = t.result + i * t.result_row + j * lanes;
      is_whole ? store(place, sum[i][j]) : store(place, sum[i][j], t.columns - j * lanes);
    }
}

/// R rows of P panels of panel_v vectors each.
template <class E, int R, int panel_v, int P = 1>
static void multiply_tile(const Tile<E>& t) {
  using Row = typename E::Row;
  constexpr int lanes = LanesOf<typename E::Sum>::count, V = panel_v * P;
  bool is_whole = t.columns == V * lanes;
  typename LanesOf<typename E::Sum>::Vector sum[R][V] = {};
  auto *left = t.left, *right = t.right, *next = t.next;
  int64_t row = t.left_row, below = t.right_row / E::step;
  auto step = [&](auto&& bring, auto&& spread) __attribute__((always_inline)) {
    Row b[V];
#pragma GCC unroll 8
    for (int j = 0; j < V; ++j)
      b[j] = bring(right + j / panel_v * t.right_panel + j % panel_v * E::width);
#pragma GCC unroll 12
    for (int i = 0; i < R; ++i) {
      Row a = spread(left + i * row);
#pragma GCC unroll 8
      for (int j = 0; j < V; ++j) sum[i][j] = E::multiply_add(sum[i][j], a, b[j]);
    }
    left += t.left_step;
    right += t.right_row;
  };
  for (int64_t p = 0; p < t.k / E::step; ++p) {
    if constexpr (P == 1) __builtin_prefetch(next, 0, 2);
    next += t.next_step;
    step(
        [&](auto* place) __attribute__((always_inline)) { return E::row(place, below); },
        [](auto* place) __attribute__((always_inline)) { return E::spread(place); });
  }
  if constexpr (E::step > 1)
    if (t.k % E::step)
      step(
          [](auto* place) __attribute__((always_inline)) { return E::row_of_one(place); },
          [](auto* place) __attribute__((always_inline)) { return E::spread_one(place); });
  if (t.first) {
#pragma GCC unroll 12
    for (int i = 0; i < R; ++i)
#pragma GCC unroll 8
      for (int j = 0; j < V; ++j) {
        auto* place = t.first + i * t.first_row + j * lanes;
        sum[i][j] += is_whole ? load(place) : load(place, t.columns - j * lanes);
      }
  }
  if (t.n_finish) finish_sums<E, R, V>(t, sum);
  store_sums<E, R, V>(t, sum);
}

template <class E>
using TileFunction = void (*)(const Tile<E>&);

template <class E, int V>
struct TileFunctions {
  static constexpr int most = tile_rows(V);
  TileFunction<E> by_rows[most];

  template <int R>
  constexpr void fill() {
    by_rows[R - 1] = multiply_tile<E, R, V>;
    if constexpr (R > 1) fill<R - 1>();
  }
  constexpr TileFunctions() : by_rows{} { fill<most>(); }
};

template <class E, int V>
static TileFunction<E> tile_function(int64_t rows) {
  static constexpr TileFunctions<E, V> functions;
  return functions.by_rows[rows - 1];
}

template <class E>
static TileFunction<E> tile_function(int64_t rows, int64_t vectors) {
  switch (vectors) {
    case 1:
      return tile_function<E, 1>(rows);
    case 2:
      return tile_function<E, 2>(rows);
#if defined(__AVX512F__)
    case 3:
      return tile_function<E, 3>(rows);
    case 4:
      return tile_function<E, 4>(rows);
#endif
  }
  __builtin_unreachable();
}

/// How many panels of so many vectors a tile of one row has.
static constexpr int64_t panels_of_row(int64_t vectors) { return vectors > 2 ? 2 : 8 / vectors; }

template <class E>
static TileFunction<E> row_function(int64_t vectors) {
  switch (vectors) {
    case 1:
      return multiply_tile<E, 1, 1, panels_of_row(1)>;
    case 2:
      return multiply_tile<E, 1, 2, panels_of_row(2)>;
#if defined(__AVX512F__)
    case 3:
      return multiply_tile<E, 1, 3, panels_of_row(3)>;
    case 4:
      return multiply_tile<E, 1, 4, panels_of_row(4)>;
#endif
  }
  __builtin_unreachable();
}

/// `longest`: steps of k in one chain of additions.
template <class E, int64_t longest>
class Multiplication {
 public:
  explicit Multiplication(const ProductBlock& block) : block_(block) {}

  void run() {
    constexpr int64_t size = sizeof(Number), fewest_rows = 48;
    // Of a small `right`, the result counts too: its rows are written by panels, best in the cache.
    constexpr int64_t small_right = (128 << 10) / size;
    int64_t most_rows = left_bytes / size / (block_.k < block_k ? block_.k + 1 : block_k);
    if (block_.k * block_.n <= small_right)
      most_rows = left_bytes / size / 4 / (block_.k + block_.n + 1);
    if (most_rows < fewest_rows) most_rows = fewest_rows;
    if (waits_apart() && most_rows > most_waiting) most_rows = most_waiting;
    int64_t rows = block_.row_end - block_.row, blocks = (rows + most_rows - 1) / most_rows;
    for (int64_t i = 0; i < blocks; ++i) {
      int64_t begin = rows * i / blocks, end = rows * (i + 1) / blocks;
      multiply_rows(block_.row + begin, end - begin);
    }
  }

 private:
  using Number = typename E::Number;
  using Sum = typename E::Sum;
  static constexpr int64_t lanes = LanesOf<Sum>::count, block_k = longest * E::step;
  static constexpr int64_t most_waiting = E::rounds ? 96 : 0;  // rows whose sums wait apart

  /// Whether sums that continue cannot wait in the result.
  bool waits_apart() const { return E::rounds && block_.is_rounded && block_.k > block_k; }

  void multiply_rows(int64_t row, int64_t rows) {
    // All of these rows of `left` stay in the cache while panels pass by, or a block of k of them
    // does: then sums wait in the result.
    bool is_short = rows * block_.k * static_cast<int64_t>(sizeof(Number)) <= left_bytes;
    bool takes_all = (is_short || waits_apart()) && block_.k > block_k;
    int64_t most = takes_all ? block_.k : block_k;
    for (int64_t p = 0; p == 0 || p < block_.k; p += most) {
      int64_t end = p + most < block_.k ? p + most : block_.k;
      for (int64_t panel = block_.panel; panel < block_.panel_end;) {
        int64_t panels = panels_of_tile(rows, panel);
        for (int64_t q = p; q == p || q < end; q += block_k)
          multiply_panels(row, rows, panel, panels, q);
        panel += panels;
      }
    }
  }

  int64_t column(int64_t panel) const { return block_.column(panel, lanes); }

  /// Those of one row that come next together are equally wide: widths differ by one vector at most.
  int64_t panels_of_tile(int64_t rows, int64_t panel) const {
    int64_t columns = column(panel + 1) - column(panel),
            panels = panels_of_row((columns + lanes - 1) / lanes);
    bool fits = rows == 1 && columns % lanes == 0 && panel + panels <= block_.panel_end &&
                column(panel + panels) - column(panel) == panels * columns;
    return fits ? panels : 1;
  }

  /// `rows` rows from `row` on of some panels, for one block of k from p on.
  void multiply_panels(int64_t row, int64_t rows, int64_t panel, int64_t panels, int64_t p) {
    int64_t first = column(panel), columns = column(panel + panels) - first;
    int64_t all_vectors = (columns + lanes - 1) / lanes, vectors = all_vectors / panels,
            width = vectors * lanes;
    int64_t tiles = (rows + tile_rows(vectors) - 1) / tile_rows(vectors);
    int64_t k = block_.k - p < block_k ? block_.k - p : block_k;
    int64_t steps = (k + E::step - 1) / E::step,
            depth = (block_.k + E::step - 1) / E::step * E::step;
    int64_t right_row = (block_.right_row ? block_.right_row : width) * E::step;
    auto* right = static_cast<const Number*>(block_.right) +
                  (block_.right_row ? first : first * depth) + p / E::step * right_row;
    int64_t next_step = (width * E::step + tiles - 1) / tiles;
    for (int64_t t = 0; t < tiles; ++t) {
      int64_t i = row + rows * t / tiles, end = row + rows * (t + 1) / tiles;
      Tile<E> tile{};
      tile.k = k, tile.columns = columns;
      tile.left = static_cast<const Number*>(block_.left) + i * block_.left_row +
                  p / E::step * block_.left_step;
      tile.left_row = block_.left_row, tile.left_step = block_.left_step;
      tile.right = right, tile.right_row = right_row;
      tile.right_panel = block_.right_row ? width : width * depth;
      tile.next = right + steps * (width * E::step + t * next_step);
      tile.next_step = next_step;
      place_result(tile, row, i, first, p);
      (panels > 1 ? row_function<E>(vectors) : tile_function<E>(end - i, vectors))(tile);
    }
  }

  /// Where the sums of a tile that begins at row i and this column come from and go.
  void place_result(Tile<E>& tile, int64_t row, int64_t i, int64_t column, int64_t p) {
    int64_t place = block_.place + i * block_.result_row + column;
    tile.result_row = block_.result_row;
    if (waits_apart()) {
      tile.result_row = panel_vectors * lanes;  // a row of several panels is the only one
      tile.result = waiting_ + (i - row) * tile.result_row;
    } else if (!block_.is_rounded) {
      tile.result = static_cast<Sum*>(block_.result) + place;
    }
    if (p > 0)
      tile.first = tile.result, tile.first_row = tile.result_row;
    else if (block_.bias)
      tile.first = static_cast<const Sum*>(block_.bias) + column;
    if (p + block_k < block_.k) return;
    tile.finish = block_.finish, tile.n_finish = block_.n_finish, tile.place = place;
    if (block_.is_rounded) tile.rounded = static_cast<Number*>(block_.result) + place;
    tile.rounded_row = block_.result_row;
  }

  const ProductBlock& block_;
  alignas(vector_bytes) Sum waiting_[most_waiting * panel_vectors * lanes + 1];
};

template <class E, int64_t longest = block_steps>
static void multiply(const ProductBlock& b) {
  Multiplication<E, longest>(b).run();
}

}  // namespace microkernel::MICROKERNEL_LEVEL
