// Softmax: three passes over a row that stays in the cache (maximum; exponentials and their sum;
// division), rather than one pass of rescaled sums: exponentials cost more than loads.
#include "core/kernels/rows/softmax.h"

#include "core/kernels/narrow.h"
#include "core/threads/thread_pool.h"

#include <algorithm>

namespace tenon::kernels {
namespace {

constexpr double softmax_us = 0.0008;  // one thread, avx512

template <class T>
void softmax_rows(const T* x, T* y, int64_t rows, int64_t n, bool logarithm) {
  const auto row = row_level<Compute<T>>().softmax;
  const double row_us = softmax_us * static_cast<double>(n);
  parallel_for(
      0, rows, 1,
      [&](int64_t lo, int64_t hi) {
        const RowScratch<T> scratch(n);
        for (int64_t r = lo; r < hi; ++r) {
          row(scratch.read(x + r * n), scratch.target(y + r * n), n, logarithm);
          scratch.finish(y + r * n);
        }
      },
      row_us);
}

void copy_in(const float* x, float* y, int64_t n) { std::copy_n(x, n, y); }
void copy_in(const double* x, double* y, int64_t n) { std::copy_n(x, n, y); }
template <class T>
void copy_in(const T* x, float* y, int64_t n) {
  widen(x, y, n);
}
void copy_out(const float* x, float* y, int64_t n) { std::copy_n(x, n, y); }
void copy_out(const double* x, double* y, int64_t n) { std::copy_n(x, n, y); }
template <class T>
void copy_out(const float* x, T* y, int64_t n) {
  narrow(x, y, n);
}

// Strips of columns are done in a dense copy: three passes down rows that lie pages apart would
// miss the cache three times (3x slower for 64 rows of 16384).
template <class T>
void softmax_columns(const T* x, T* y, int64_t outer, int64_t n, int64_t inner, bool logarithm) {
  constexpr int64_t width = 64;
  using C = Compute<T>;
  const auto columns = row_level<C>().softmax_columns;
  const int64_t strips = (inner + width - 1) / width;
  const auto strip_us = softmax_us * static_cast<double>(n * std::min(inner, width));
  parallel_for(
      0, outer * strips, 1,
      [&](int64_t lo, int64_t hi) {
        const HostBlock block(static_cast<size_t>(n * width) * sizeof(C));
        C* const strip = block.template as<C>();
        for (int64_t s = lo; s < hi; ++s) {
          const int64_t j = s % strips * width, m = std::min(width, inner - j);
          const int64_t at = s / strips * n * inner + j;
          for (int64_t p = 0; p < n; ++p) copy_in(x + at + p * inner, strip + p * m, m);
          columns(strip, strip, n, m, m, logarithm);
          for (int64_t p = 0; p < n; ++p) copy_out(strip + p * m, y + at + p * inner, m);
        }
      },
      strip_us);
}

}  // namespace

template <class T>
void softmax(const T* x, T* y, int64_t outer, int64_t n, int64_t inner, bool logarithm) {
  if (outer == 0 || n == 0 || inner == 0) return;
  if (inner == 1)
    softmax_rows(x, y, outer, n, logarithm);
  else
    softmax_columns(x, y, outer, n, inner, logarithm);
}

template void softmax(const float*, float*, int64_t, int64_t, int64_t, bool);
template void softmax(const double*, double*, int64_t, int64_t, int64_t, bool);
template void softmax(const Half*, Half*, int64_t, int64_t, int64_t, bool);
template void softmax(const BFloat16*, BFloat16*, int64_t, int64_t, int64_t, bool);

}  // namespace tenon::kernels
