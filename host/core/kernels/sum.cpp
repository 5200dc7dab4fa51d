// Sums. Long sums are cut into parts of a fixed size, whose sums are summed in turn: that gives
// work to threads where there are few results, and the order of additions is the same for any
// number of them.
#include "core/kernels/sum.h"

#include "core/threads/thread_pool.h"

#include <algorithm>

namespace tenon::kernels {
namespace {

constexpr int64_t part_elements = 32768;
constexpr double element_us = 0.0001;

// One part: the sums over `rows` rows of `inner` elements.
template <class T>
void sum_part(const T* x, Compute<T>* out, int64_t rows, int64_t inner) {
  constexpr int64_t few = 8;  // elements, for which a vector is not worth its call
  if constexpr (std::is_same_v<T, Compute<T>>)
    if (inner == 1 && rows <= few) {
      *out = x[0];
      for (int64_t i = 1; i < rows; ++i) *out += x[i];
      return;
    }
  const auto& level = row_level<Compute<T>>();
  const RowScratch<T> scratch(rows * inner);
  const Compute<T>* values = scratch.read(x);
  if (inner == 1)
    *out = level.sum(values, rows);
  else
    level.sum_columns(values, out, rows, inner, inner);
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
  const int64_t rows = std::clamp<int64_t>(part_elements / inner, 1, n);
  const int64_t parts = (n + rows - 1) / rows;
  const HostBlock block(parts == 1 ? 0 : static_cast<size_t>(outer * parts * inner) * sizeof(C));
  C* const partial = parts == 1 ? out : block.as<C>();
  parallel_for(
      0, outer * parts, 1,
      [&](int64_t lo, int64_t hi) {
        for (int64_t index = lo; index < hi; ++index) {
          const int64_t o = parts == 1 ? index : index / parts;
          const int64_t p = (index - o * parts) * rows;
          sum_part(x + (o * n + p) * inner, partial + index * inner, std::min(rows, n - p), inner);
        }
      },
      element_us * static_cast<double>(rows * inner));
  if (parts > 1) sum(static_cast<const C*>(partial), out, outer, parts, inner);
}

template void sum(const float*, float*, int64_t, int64_t, int64_t);
template void sum(const double*, double*, int64_t, int64_t, int64_t);
template void sum(const Half*, float*, int64_t, int64_t, int64_t);
template void sum(const BFloat16*, float*, int64_t, int64_t, int64_t);

}  // namespace tenon::kernels
