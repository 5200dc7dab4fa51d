// Sums. Long sums are cut into parts of a fixed size, whose sums are summed in turn: that gives
// work to threads where there are few results, and the order of additions is the same for any
// number of them. Wide rows are cut into columns, so that a part always has rows enough to leave
// fewer.
#include "core/kernels/rows/sum.h"

#include "core/threads/thread_pool.h"

#include <algorithm>

namespace tenon::kernels {
namespace {

constexpr int64_t part_elements = 32768, least_rows = 32, columns_of_part = 2048;
constexpr double sum_us = 0.0001;

// One part: the sums over `rows` rows of `width` elements, `step` apart.
template <class T>
void sum_part(const T* x, Compute<T>* out, int64_t rows, int64_t width, int64_t step) {
  using C = Compute<T>;
  constexpr int64_t few = 8;  // elements, for which a vector is not worth its call
  if constexpr (std::is_same_v<T, C>)
    if (step == 1 && rows <= few) {
      auto at = [&](int64_t i) { return i < rows ? x[i] : C(0); };
      // In the order in which lanes of a vector are joined.
      *out = ((at(0) + at(4)) + (at(2) + at(6))) + ((at(1) + at(5)) + (at(3) + at(7)));
      return;
    }
  const auto& level = row_level<C>();
  bool is_dense = width == step;
  if (is_dense || std::is_same_v<T, C>) {
    const RowScratch<T> scratch(rows * width);
    const C* values = scratch.read(x);
    step == 1 ? void(*out = level.sum(values, rows))
              : level.sum_columns(values, out, rows, step, width);
    return;
  }
  const RowScratch<T> scratch(width);
  std::fill_n(out, width, C(0));
  for (int64_t r = 0; r < rows; ++r) {
    const C* row = scratch.read(x + r * step);
    for (int64_t k = 0; k < width; ++k) out[k] += row[k];
  }
}

}  // namespace

template <class T>
void sum(const T* x, Compute<T>* out, int64_t outer, int64_t n, int64_t inner) {
  using C = Compute<T>;
  if (outer == 0 || inner == 0) return;
  if (n == 0) {
    std::fill_n(out, outer * inner, C(0));
    return;
  }
  const int64_t rows = std::min(n, std::max(part_elements / inner, least_rows));
  const int64_t parts = (n + rows - 1) / rows;
  const int64_t width = inner > part_elements ? columns_of_part : inner,
                pieces = (inner + width - 1) / width;
  const HostBlock block(parts == 1 ? 0 : static_cast<size_t>(outer * parts * inner) * sizeof(C));
  C* const partial = parts == 1 ? out : block.as<C>();
  parallel_for(
      0, outer * parts * pieces, 1,
      [&](int64_t lo, int64_t hi) {
        for (int64_t index = lo; index < hi; ++index) {
          const int64_t part = pieces == 1 ? index : index / pieces;
          const int64_t o = parts == 1 ? part : part / parts, p = (part - o * parts) * rows;
          const int64_t column = (index - part * pieces) * width;
          sum_part(x + (o * n + p) * inner + column, partial + part * inner + column,
                   std::min(rows, n - p), std::min(width, inner - column), inner);
        }
      },
      sum_us * static_cast<double>(rows * width));
  if (parts > 1) sum(static_cast<const C*>(partial), out, outer, parts, inner);
}

template void sum(const float*, float*, int64_t, int64_t, int64_t);
template void sum(const double*, double*, int64_t, int64_t, int64_t);
template void sum(const Half*, float*, int64_t, int64_t, int64_t);
template void sum(const BFloat16*, float*, int64_t, int64_t, int64_t);

}  // namespace tenon::kernels
