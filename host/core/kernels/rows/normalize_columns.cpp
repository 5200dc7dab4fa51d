// Normalisation over rows of channels.
//
// Method: a channel at a time would read the memory once for each. Rows are taken one after the other
//   instead, a part of the channels that stays in the first cache at a time; sums run in C over 32
//   rows and in double beyond. Moments take two passes, as those of a row do (normalize.cpp).
// Cost: memory-bound for batches of some rows.
#include "core/kernels/rows/normalize_columns.h"

#include "core/threads/thread_pool.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace tenon::kernels::columns {
namespace {

constexpr int64_t part = 512;  // channels
constexpr double columns_us = 0.0002;

// `body(first channel, n)`, shared out to threads.
void for_each_part(int64_t batch, int64_t channels, FunctionRef<void(int64_t, int64_t)> body) {
  parallel_for(
      0, (channels + part - 1) / part, 1,
      [&](int64_t lo, int64_t hi) {
        for (int64_t i = lo; i < hi; ++i) body(i * part, std::min(part, channels - i * part));
      },
      columns_us * static_cast<double>(batch * part));
}

// Elements [first, first + n) of a row in the compute type.
template <class C>
const C* read_row(const Rows& rows, int64_t row, int64_t first, int64_t n, float* scratch) {
  const char* at = static_cast<const char*>(rows.first) + row * rows.bytes;
  if (rows.widen == nullptr) return reinterpret_cast<const C*>(at) + first;
  rows.widen(reinterpret_cast<const uint16_t*>(at) + first, scratch, n);
  return reinterpret_cast<const C*>(scratch);  // C is float
}

// The sums of `count` numbers a row: `add(row, sums)` adds those of a row.
template <class C, class F>
void sum_rows(int64_t batch, int64_t count, double* totals, const F& add) {
  constexpr int64_t rows = 32;
  C sums[2 * part];
  std::fill_n(totals, count, 0.0);
  for (int64_t b = 0; b < batch; b += rows) {
    std::fill_n(sums, count, C(0));
    for (int64_t r = b; r < std::min(batch, b + rows); ++r) add(r, sums);
    for (int64_t i = 0; i < count; ++i) totals[i] += sums[i];
  }
}

template <class C>
void moments_of_part(const Rows& x, C* mean, C* m2, int64_t batch, int64_t first, int64_t n) {
  double totals[2 * part];
  float scratch[part];
  C center[part];
  const auto count = static_cast<double>(batch);
  sum_rows<C>(batch, n, totals, [&](int64_t r, C* sums) {
    const C* row = read_row<C>(x, r, first, n, scratch);
    for (int64_t i = 0; i < n; ++i) sums[i] += row[i];
  });
  for (int64_t i = 0; i < n; ++i) center[i] = static_cast<C>(totals[i] / count);
  sum_rows<C>(batch, 2 * n, totals, [&](int64_t r, C* sums) {
    const C* row = read_row<C>(x, r, first, n, scratch);
    for (int64_t i = 0; i < n; ++i) {
      const C off = row[i] - center[i];
      sums[i] += off;
      sums[n + i] += off * off;
    }
  });
  for (int64_t i = 0; i < n; ++i) {
    const double off = totals[i], corrected = totals[n + i] - off * (off / count);
    mean[i] = std::isfinite(off) ? static_cast<C>(center[i] + off / count) : center[i];
    m2[i] = static_cast<C>(corrected < 0 ? 0.0 : corrected);  // NaN stays
  }
}

}  // namespace

template <class C>
void moments(const Rows& x, C* mean, C* m2, int64_t batch, int64_t channels) {
  for_each_part(batch, channels, [&](int64_t first, int64_t n) {
    moments_of_part(x, mean + first, m2 + first, batch, first, n);
  });
}

template <class C>
void scale(const Rows& x, void* y, int64_t batch, int64_t channels, const C* center, const C* scale,
           const C* shift) {
  for_each_part(batch, channels, [&](int64_t first, int64_t n) {
    C from[part], to[part], out[part];
    float scratch[part];
    for (int64_t i = 0; i < n; ++i) {
      from[i] = center ? center[first + i] : C(0);
      to[i] = shift ? shift[first + i] : C(0);
    }
    for (int64_t r = 0; r < batch; ++r) {
      const C* row = read_row<C>(x, r, first, n, scratch);
      char* at = static_cast<char*>(y) + r * x.bytes;
      C* target = x.narrow ? out : reinterpret_cast<C*>(at) + first;
      for (int64_t i = 0; i < n; ++i) target[i] = (row[i] - from[i]) * scale[first + i] + to[i];
      if (x.narrow)
        x.narrow(reinterpret_cast<const float*>(out), reinterpret_cast<uint16_t*>(at) + first, n);
    }
  });
}

template <class C>
void gradient_sums(const C* g, const C* x, const C* center, double* of_g, double* of_gx,
                   int64_t batch, int64_t channels) {
  for_each_part(batch, channels, [&](int64_t first, int64_t n) {
    double totals[2 * part];
    sum_rows<C>(batch, 2 * n, totals, [&](int64_t r, C* sums) {
      const C *gs = g + r * channels + first, *xs = x + r * channels + first;
      for (int64_t i = 0; i < n; ++i) {
        sums[i] += gs[i];
        sums[n + i] += gs[i] * (xs[i] - center[first + i]);
      }
    });
    std::copy_n(totals, n, of_g + first);
    std::copy_n(totals + n, n, of_gx + first);
  });
}

template <class C>
void combine(const C* g, const C* x, C* y, int64_t batch, int64_t channels, const C* center,
             const C* a, const C* b, const C* d) {
  for_each_part(batch, channels, [&](int64_t first, int64_t n) {
    for (int64_t r = 0; r < batch; ++r) {
      const int64_t at = r * channels;
      for (int64_t i = first; i < first + n; ++i)
        y[at + i] = g[at + i] * a[i] + (x[at + i] - center[i]) * b[i] + d[i];
    }
  });
}

#define TENON_COLUMNS(C)                                                                         \
  template void moments(const Rows&, C*, C*, int64_t, int64_t);                                  \
  template void scale(const Rows&, void*, int64_t, int64_t, const C*, const C*, const C*);       \
  template void gradient_sums(const C*, const C*, const C*, double*, double*, int64_t, int64_t); \
  template void combine(const C*, const C*, C*, int64_t, int64_t, const C*, const C*, const C*,  \
                        const C*);
TENON_COLUMNS(float)
TENON_COLUMNS(double)
#undef TENON_COLUMNS

}  // namespace tenon::kernels::columns
