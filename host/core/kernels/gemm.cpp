// Matrix products.
//
// Problem: C = alpha op(A) op(B) + beta C for any size, from 1 x n to thousands, any transposition,
// at a good part of what the core can do, without tuning for a machine.
//
// Method: three ways, chosen by the sizes of the whole product, never by those of a thread's part,
// so that an element of C is the same for any number of threads.
//   dots     up to 8 rows (or columns) and both operands consecutive along k, as x W^T of a linear
//            layer: blocks of 4 x 4 dot products read W once, where it lies.
//   direct   few rows and B consecutive along n: tiles that read B where it lies.
//   packed   the rest: op(A) and op(B) are copied into panels in the order in which the tile
//            kernels read them (K. Goto, R. van de Geijn, "Anatomy of High-Performance Matrix
//            Multiplication", 2008), in steps of 256 along k.
// A few columns with A consecutive along m are computed as the transposed product.
// Threads: C is cut into a grid of parts, each done alone with its own panels. Operands are packed
// more than once that way, but nobody waits between phases; the grid is the one with least work in
// its largest part, packing counted as 20 multiply-adds an element.
// 16-bit types: parts of A and B become f32 in step with k; sums are f32 and rounded once.
// Integers: rows of B times elements of A, in blocks that stay in the cache.
#include "core/kernels/gemm.h"

#include "core/kernels/gemm_block.h"
#include "core/kernels/level_table.h"
#include "core/kernels/narrow.h"
#include "core/tensor/allocator.h"
#include "core/threads/thread_pool.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

namespace tenon::kernels {
namespace {

constexpr int64_t most_dot_rows = 8;

bool is(Trans t) { return t == Trans::yes; }

// ---- threads ----

struct Grid {
  int64_t rows = 1, columns = 1;            // parts of C
  int64_t part_rows = 0, part_columns = 0;  // sizes of a part
};

double gemm_us(double m, double n, double k, int64_t element_bytes) {
  // Multiply-adds per us of one core, below what was measured; and 20 GB/s for reading.
  static constexpr double f32_rate[n_cpu_levels] = {12e3, 40e3, 80e3};
  const double rate =
      f32_rate[static_cast<int>(cpu_level())] * 4 / static_cast<double>(element_bytes);
  const double bytes = (m * k + k * n + m * n) * static_cast<double>(element_bytes);
  return std::max(m * n * k / rate, bytes / 20e3);
}

Grid choose_grid(int64_t m, int64_t n, int64_t parts, int64_t row_step, int64_t column_step) {
  Grid best;
  double best_cost = 0;
  for (int64_t rows = 1; rows <= parts; ++rows) {
    const int64_t columns = (parts + rows - 1) / rows;
    Grid g;
    g.part_rows = round_up((m + rows - 1) / rows, row_step);
    g.part_columns = round_up((n + columns - 1) / columns, column_step);
    g.rows = (m + g.part_rows - 1) / g.part_rows;
    g.columns = (n + g.part_columns - 1) / g.part_columns;
    const auto a = static_cast<double>(std::min(m, g.part_rows));
    const auto b = static_cast<double>(std::min(n, g.part_columns));
    const double cost = a * b + 20 * (a + b);
    if (rows == 1 || cost < best_cost) best = g, best_cost = cost;
  }
  return best;
}

// Runs part(batch index, i, m, j, n) for parts that cover C.
template <class Part>
void over_parts(int64_t batch, int64_t m, int64_t n, int64_t k, int64_t row_step,
                int64_t column_step, int64_t element_bytes, Part part) {
  const double one_us = gemm_us(static_cast<double>(m), static_cast<double>(n),
                                static_cast<double>(k), element_bytes);
  const double us = one_us * static_cast<double>(batch);
  const int64_t threads = in_parallel() || us < 5 ? 1 : num_threads();
  const int64_t wanted = threads == 1                                ? 1
                         : us < 200.0 * static_cast<double>(threads) ? threads
                                                                     : 2 * threads;
  const int64_t parts = std::max<int64_t>(1, wanted / batch);
  const Grid grid = choose_grid(m, n, parts, row_step, column_step);
  const int64_t per_product = grid.rows * grid.columns;
  const auto run = [&](int64_t index) {
    const int64_t within = index % per_product;
    const int64_t i = within / grid.columns * grid.part_rows;
    const int64_t j = within % grid.columns * grid.part_columns;
    part(index / per_product, i, std::min(grid.part_rows, m - i), j,
         std::min(grid.part_columns, n - j));
  };
  // Products of a large batch go out in groups, so that a chunk is not a few nanoseconds.
  parallel_for(
      0, batch * per_product, std::max<int64_t>(1, static_cast<int64_t>(2 / one_us)),
      [&](int64_t lo, int64_t hi) {
        for (int64_t index = lo; index < hi; ++index) run(index);
      },
      one_us / static_cast<double>(per_product));
}

// ---- one product of f32 or f64 ----

template <class T>
const T* element_a(const Gemm<T>& g, int64_t i, int64_t p) {
  return g.a + (is(g.trans_a) ? p * g.lda + i : i * g.lda + p);
}
template <class T>
const T* element_b(const Gemm<T>& g, int64_t p, int64_t j) {
  return g.b + (is(g.trans_b) ? j * g.ldb + p : p * g.ldb + j);
}

// The rows [i, i + m) and columns [j, j + n) of one product.
template <class T>
Gemm<T> part_of(const Gemm<T>& g, int64_t index, int64_t i, int64_t m, int64_t j, int64_t n) {
  Gemm<T> part = g;
  part.a = element_a(g, i, 0) + index * g.stride_a;
  part.b = element_b(g, 0, j) + index * g.stride_b;
  part.c = g.c + index * g.stride_c + i * g.ldc + j;
  part.m = m;
  part.n = n;
  part.batch = 1;
  return part;
}

template <class T>
void packed(const Gemm<T>& g) {
  const GemmLevel<T>& level = gemm_level<T>();
  const int64_t depth = std::min(g.k, block_depth);
  const int64_t rows = std::min(round_up(g.m, level.tile_rows), block_rows);
  const int64_t columns = std::min(round_up(g.n, level.tile_columns), block_columns);
  const HostBlock scratch(static_cast<size_t>((rows + columns) * depth) * sizeof(T));
  T* const a_panels = scratch.as<T>();
  T* const b_panels = a_panels + rows * depth;
  for (int64_t j = 0; j < g.n; j += columns) {
    const int64_t n = std::min(columns, g.n - j);
    for (int64_t p = 0; p < g.k; p += depth) {
      const int64_t k = std::min(depth, g.k - p);
      const T beta = p == 0 ? g.beta : T(1);
      pack_columns(level, is(g.trans_b), element_b(g, p, j), g.ldb, n, k, b_panels);
      for (int64_t i = 0; i < g.m; i += rows) {
        const int64_t m = std::min(rows, g.m - i);
        pack_rows(level, is(g.trans_a), element_a(g, i, p), g.lda, m, k, a_panels);
        run_panels(level, m, n, k, a_panels, level.tile_rows * k, b_panels, level.tile_columns * k,
                   g.alpha, beta, g.c + i * g.ldc + j, g.ldc);
      }
    }
  }
}

// B is read where it lies, but for the last columns that do not fill a tile; k is short.
template <class T>
void direct_step(const Gemm<T>& g) {
  const GemmLevel<T>& level = gemm_level<T>();
  const int64_t whole = g.n / level.tile_columns * level.tile_columns;
  const int64_t a_size = round_up(g.m, level.tile_rows) * g.k;
  const HostBlock scratch(static_cast<size_t>(a_size + level.tile_columns * g.k) * sizeof(T));
  T* const a = scratch.as<T>();
  T* const edge = a + a_size;
  pack_rows(level, is(g.trans_a), g.a, g.lda, g.m, g.k, a);
  int64_t j = 0;
  if (g.m <= 3)
    for (; j + level.wide_columns <= whole; j += level.wide_columns)
      level.wide_micro_kernels[g.m - 1](g.k, a, g.b + j, g.ldb, g.alpha, g.beta, g.c + j, g.ldc);
  for (; j < whole; j += level.tile_columns)
    for (int64_t i = 0; i < g.m; i += level.tile_rows)
      run_tile(level, std::min(level.tile_rows, g.m - i), level.tile_columns, g.k, a + i * g.k,
               g.b + j, g.ldb, g.alpha, g.beta, g.c + i * g.ldc + j, g.ldc);
  if (whole == g.n) return;
  pack_columns(level, false, g.b + whole, g.ldb, g.n - whole, g.k, edge);
  run_panels(level, g.m, g.n - whole, g.k, a, level.tile_rows * g.k, edge, int64_t{0}, g.alpha,
             g.beta, g.c + whole, g.ldc);
}

// Calls step for `depth` terms at a time, each of which adds to the sums of those before: an error grows
// with the length of a chain of additions.
template <class T, class Step>
void in_steps(const Gemm<T>& g, int64_t depth, Step step) {
  for (int64_t p = 0; p < g.k; p += depth) {
    Gemm<T> part = g;
    part.a = element_a(g, 0, p);
    part.b = element_b(g, p, 0);
    part.k = std::min(depth, g.k - p);
    if (p > 0) part.beta = T(1);
    step(part);
  }
}

template <class T>
void direct(const Gemm<T>& g) {
  in_steps(g, block_depth, direct_step<T>);
}

// Both operands consecutive along k; the smaller one is made so when it is not.
template <class T>
void dots(const Gemm<T>& g) {
  const bool copy_a = is(g.trans_a), copy_b = !is(g.trans_b);
  const int64_t copied = (copy_a ? g.m : 0) + (copy_b ? g.n : 0);
  const HostBlock scratch(static_cast<size_t>(copied * g.k) * sizeof(T));
  T* copy = scratch.as<T>();
  Gemm<T> h = g;
  if (copy_a) {
    for (int64_t i = 0; i < g.m; ++i)
      for (int64_t p = 0; p < g.k; ++p) copy[i * g.k + p] = g.a[p * g.lda + i];
    h.a = copy, h.lda = g.k;
    copy += g.m * g.k;
  }
  if (copy_b) {
    for (int64_t j = 0; j < g.n; ++j)
      for (int64_t p = 0; p < g.k; ++p) copy[j * g.k + p] = g.b[p * g.ldb + j];
    h.b = copy, h.ldb = g.k;
  }
  h.trans_a = Trans::no, h.trans_b = Trans::yes;
  // The larger operand is read once: it takes the place of B.
  const auto run = gemm_level<T>().dots;
  const int64_t lanes = gemm_level<T>().tile_columns / 2;  // chains side by side
  in_steps(h, block_depth * lanes, [run](const Gemm<T>& s) {
    if (s.m <= s.n)
      run(s.m, s.n, s.k, s.a, s.lda, s.b, s.ldb, s.alpha, s.beta, s.c, s.ldc, 1);
    else
      run(s.n, s.m, s.k, s.b, s.ldb, s.a, s.lda, s.alpha, s.beta, s.c, 1, s.ldc);
  });
}

// Few columns: C^T = op(B)^T op(A)^T into scratch, then added to C.
template <class T>
void transposed_direct(const Gemm<T>& g) {
  const HostBlock scratch(static_cast<size_t>(g.m * g.n) * sizeof(T));
  T* const sums = scratch.as<T>();
  direct(Gemm<T>{.trans_a = is(g.trans_b) ? Trans::no : Trans::yes,
                 .m = g.n,
                 .n = g.m,
                 .k = g.k,
                 .alpha = g.alpha,
                 .a = g.b,
                 .lda = g.ldb,
                 .b = g.a,
                 .ldb = g.lda,
                 .c = sums,
                 .ldc = g.m});
  for (int64_t i = 0; i < g.m; ++i)
    for (int64_t j = 0; j < g.n; ++j) {
      T& at = g.c[i * g.ldc + j];
      at = g.beta == T(0) ? sums[j * g.m + i] : sums[j * g.m + i] + g.beta * at;
    }
}

template <class T>
using Way = void (*)(const Gemm<T>&);

// A single row or column is consecutive along k also where it is stored with step 1 as a column.
template <class T>
Gemm<T> normalized(Gemm<T> g) {
  if (g.m == 1 && is(g.trans_a) && g.lda == 1) g.trans_a = Trans::no;
  if (g.n == 1 && !is(g.trans_b) && g.ldb == 1) g.trans_b = Trans::yes;
  return g;
}

template <class T>
Way<T> choose_way(const Gemm<T>& g) {
  if (g.m <= most_dot_rows && is(g.trans_b)) return dots<T>;
  if (g.n <= most_dot_rows && !is(g.trans_a)) return dots<T>;
  if (!is(g.trans_b) && g.m <= 2 * gemm_level<T>().tile_rows) return direct<T>;
  if (is(g.trans_a) && g.n <= most_dot_rows) return transposed_direct<T>;
  return packed<T>;
}

// The product without terms: C = beta C.
template <class T>
void scale_only(const Gemm<T>& g) {
  for (int64_t index = 0; index < g.batch; ++index)
    for (int64_t i = 0; i < g.m; ++i)
      for (int64_t j = 0; j < g.n; ++j) {
        T& at = g.c[index * g.stride_c + i * g.ldc + j];
        at = g.beta == 0 ? T(0) : static_cast<T>(g.beta * at);
      }
}

template <class T>
void floating_gemm(const Gemm<T>& call) {
  const Gemm<T> g = normalized(call);
  const Way<T> way = choose_way(g);
  const GemmLevel<T>& level = gemm_level<T>();
  over_parts(g.batch, g.m, g.n, g.k, level.tile_rows, level.wide_columns, sizeof(T),
             [&](int64_t index, int64_t i, int64_t m, int64_t j, int64_t n) {
               way(part_of(g, index, i, m, j, n));
             });
}

// ---- 16-bit types ----

// rows x columns of x as float, without gaps.
template <class T>
void widen_block(const T* x, int64_t ld, int64_t rows, int64_t columns, float* y) {
  for (int64_t i = 0; i < rows; ++i) widen(x + i * ld, y + i * columns, columns);
}

template <class T>
void narrow_gemm_part(const Gemm<T>& g) {
  const int64_t depth = std::min(g.k, block_depth);
  const HostBlock scratch(static_cast<size_t>(g.m * g.n + (g.m + g.n) * depth) * sizeof(float));
  float* const c = scratch.as<float>();
  float* const a = c + g.m * g.n;
  float* const b = a + g.m * depth;
  for (int64_t p = 0; p < g.k; p += depth) {
    const int64_t k = std::min(depth, g.k - p);
    const bool ta = is(g.trans_a), tb = is(g.trans_b);
    widen_block(element_a(g, 0, p), g.lda, ta ? k : g.m, ta ? g.m : k, a);
    widen_block(element_b(g, p, 0), g.ldb, tb ? g.n : k, tb ? k : g.n, b);
    packed(Gemm<float>{.trans_a = g.trans_a,
                       .trans_b = g.trans_b,
                       .m = g.m,
                       .n = g.n,
                       .k = k,
                       .a = a,
                       .lda = ta ? g.m : k,
                       .b = b,
                       .ldb = tb ? k : g.n,
                       .beta = p == 0 ? 0.0f : 1.0f,
                       .c = c,
                       .ldc = g.n});
  }
  for (int64_t i = 0; i < g.m; ++i)
    for (int64_t j = 0; j < g.n; ++j) {
      T& at = g.c[i * g.ldc + j];
      const float sum = g.alpha * c[i * g.n + j];
      at = T(g.beta == 0 ? sum : sum + g.beta * static_cast<float>(at));
    }
}

// Wide parts are done in strips of columns, so that the f32 copies stay in the cache.
template <class T>
void narrow_gemm(const Gemm<T>& g) {
  const GemmLevel<float>& level = gemm_level<float>();
  over_parts(g.batch, g.m, g.n, g.k, level.tile_rows, level.tile_columns, sizeof(float),
             [&](int64_t index, int64_t i, int64_t m, int64_t j, int64_t n) {
               for (int64_t at = 0; at < n; at += block_columns)
                 narrow_gemm_part(part_of(g, index, i, m, j + at, std::min(block_columns, n - at)));
             });
}

// ---- integers ----

inline IntegerBlock<uint8_t> integer_kernel(uint8_t) { return kernel_table().integers_8; }
inline IntegerBlock<uint16_t> integer_kernel(uint16_t) { return kernel_table().integers_16; }
inline IntegerBlock<uint32_t> integer_kernel(uint32_t) { return kernel_table().integers_32; }
inline IntegerBlock<uint64_t> integer_kernel(uint64_t) { return kernel_table().integers_64; }

template <class U>
void integer_gemm_part(const Gemm<U>& g) {
  constexpr int64_t depth = 64, width = 512;
  const HostBlock scratch(static_cast<size_t>(g.m * width + depth * width) * sizeof(U));
  U* const c = scratch.as<U>();
  U* const right = c + g.m * width;
  for (int64_t j = 0; j < g.n; j += width) {
    const int64_t n = std::min(width, g.n - j);
    std::memset(c, 0, static_cast<size_t>(g.m * width) * sizeof(U));
    for (int64_t p = 0; p < g.k; p += depth) {
      const int64_t k = std::min(depth, g.k - p);
      const U* b = element_b(g, p, j);
      int64_t ldb = g.ldb;
      if (is(g.trans_b)) {
        for (int64_t q = 0; q < n; ++q)
          for (int64_t r = 0; r < k; ++r) right[r * width + q] = b[q * g.ldb + r];
        b = right, ldb = width;
      }
      integer_kernel(U{})(g.m, n, k, element_a(g, 0, p), is(g.trans_a) ? 1 : g.lda,
                          is(g.trans_a) ? g.lda : 1, b, ldb, c, width);
    }
    for (int64_t i = 0; i < g.m; ++i)
      for (int64_t q = 0; q < n; ++q) {
        U& at = g.c[i * g.ldc + j + q];
        at = static_cast<U>(uint64_t{g.alpha} * c[i * width + q] + uint64_t{g.beta} * at);
      }
  }
}

template <class T>
void integer_gemm(const Gemm<T>& g) {
  using U = std::make_unsigned_t<T>;
  const Gemm<U> as_unsigned{.trans_a = g.trans_a,
                            .trans_b = g.trans_b,
                            .m = g.m,
                            .n = g.n,
                            .k = g.k,
                            .alpha = static_cast<U>(g.alpha),
                            .a = reinterpret_cast<const U*>(g.a),
                            .lda = g.lda,
                            .b = reinterpret_cast<const U*>(g.b),
                            .ldb = g.ldb,
                            .beta = static_cast<U>(g.beta),
                            .c = reinterpret_cast<U*>(g.c),
                            .ldc = g.ldc,
                            .batch = g.batch,
                            .stride_a = g.stride_a,
                            .stride_b = g.stride_b,
                            .stride_c = g.stride_c};
  over_parts(g.batch, g.m, g.n, g.k, 1, 64, 8,
             [&](int64_t index, int64_t i, int64_t m, int64_t j, int64_t n) {
               integer_gemm_part(part_of(as_unsigned, index, i, m, j, n));
             });
}

}  // namespace

template <class T>
void gemm(const Gemm<T>& call) {
  if (call.m == 0 || call.n == 0 || call.batch == 0) return;
  if (call.k == 0 || call.alpha == 0) return scale_only(call);
  if constexpr (std::is_floating_point_v<T>)
    floating_gemm(call);
  else if constexpr (std::is_integral_v<T>)
    integer_gemm(call);
  else
    narrow_gemm(call);
}

template void gemm(const Gemm<float>&);
template void gemm(const Gemm<double>&);
template void gemm(const Gemm<Half>&);
template void gemm(const Gemm<BFloat16>&);
template void gemm(const Gemm<int8_t>&);
template void gemm(const Gemm<uint8_t>&);
template void gemm(const Gemm<int16_t>&);
template void gemm(const Gemm<int32_t>&);
template void gemm(const Gemm<int64_t>&);

}  // namespace tenon::kernels
