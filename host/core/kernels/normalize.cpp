// Normalisation over rows, groups and channels.
//
// A row's moments take two passes: the mean pairwise, then the squared differences from it, with
// the sum of the plain differences as a correction (T. Chan, G. Golub, R. LeVeque, "Algorithms for
// computing the sample variance", 1983). Moments of the segments of a channel are merged in double
// by the rule of the same authors.
#include "core/kernels/normalize.h"

#include "core/threads/thread_pool.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

namespace tenon::kernels {
namespace {

constexpr double element_us = 0.0002;

struct Merged {
  double count = 0, mean = 0, m2 = 0;

  void add(double n, double other_mean, double other_m2) {
    const double all = count + n, apart = other_mean - mean;
    mean += apart * (n / all);
    m2 += other_m2 + apart * apart * (count * n / all);
    count = all;
  }
};

template <class C>
C reciprocal_deviation(C m2, int64_t n, C eps) {
  return C(1) / std::sqrt(m2 / static_cast<C>(n) + eps);
}

// weight and bias in the compute type: themselves, or copies.
template <class T>
class Widened {
 public:
  Widened(const T* values, int64_t n)
      : block_(is_narrow<T> && values ? static_cast<size_t>(n) * sizeof(float) : 0) {
    if constexpr (!is_narrow<T>) {
      values_ = values;
    } else if (values != nullptr) {
      widen(values, block_.template as<float>(), n);
      values_ = block_.template as<float>();
    }
  }
  const Compute<T>* get() const { return values_; }

 private:
  HostBlock block_;
  const Compute<T>* values_ = nullptr;
};

// Channels that lie side by side, as inputs of two dimensions and of channels_last order have them:
// rows of channels, in parts that stay in the first cache. `body(first channel, n)`.
template <class F>
void for_each_part_of_channels(int64_t batch, int64_t channels, const F& body) {
  constexpr int64_t part = 512;
  parallel_for(
      0, (channels + part - 1) / part, 1,
      [&](int64_t lo, int64_t hi) {
        for (int64_t i = lo; i < hi; ++i) body(i * part, std::min(part, channels - i * part));
      },
      element_us * static_cast<double>(batch * part));
}

// Sums in C over 32 rows at a time, which are summed in double: `add(row, sums)` adds row number
// `row` to n sums.
template <class C, class F>
void sum_rows_in_parts(int64_t batch, int64_t n, double* totals, const F& add) {
  constexpr int64_t rows = 32;
  std::vector<C> sums(static_cast<size_t>(n));
  std::fill_n(totals, n, 0.0);
  for (int64_t b = 0; b < batch; b += rows) {
    std::fill(sums.begin(), sums.end(), C(0));
    for (int64_t r = b; r < std::min(batch, b + rows); ++r) add(r, sums.data());
    for (int64_t i = 0; i < n; ++i) totals[i] += sums[static_cast<size_t>(i)];
  }
}

// As for a row: the mean first, then the differences from it and their squares.
template <class T>
void moments_of_columns(const T* x, Compute<T>* mean, Compute<T>* m2, int64_t batch,
                        int64_t channels, int64_t n) {
  using C = Compute<T>;
  const RowScratch<T> scratch(n);
  std::vector<double> totals(static_cast<size_t>(2 * n));
  const auto count = static_cast<double>(batch);
  sum_rows_in_parts<C>(batch, n, totals.data(), [&](int64_t r, C* sums) {
    const C* row = scratch.read(x + r * channels);
    for (int64_t i = 0; i < n; ++i) sums[i] += row[i];
  });
  std::vector<C> center(static_cast<size_t>(n));
  for (size_t i = 0; i < center.size(); ++i) center[i] = static_cast<C>(totals[i] / count);
  sum_rows_in_parts<C>(batch, 2 * n, totals.data(), [&](int64_t r, C* sums) {
    const C* row = scratch.read(x + r * channels);
    for (int64_t i = 0; i < n; ++i) {
      const C off = row[i] - center[static_cast<size_t>(i)];
      sums[i] += off;
      sums[n + i] += off * off;
    }
  });
  for (int64_t i = 0; i < n; ++i) {
    const double off = totals[static_cast<size_t>(i)];
    const double corrected = totals[static_cast<size_t>(n + i)] - off * (off / count);
    mean[i] = static_cast<C>(center[static_cast<size_t>(i)] + off / count);
    m2[i] = static_cast<C>(corrected < 0 ? 0.0 : corrected);  // NaN stays
  }
}

}  // namespace

template <class T>
void layer_norm(const T* x, T* y, Compute<T>* mean, Compute<T>* rstd, int64_t rows, int64_t n,
                Compute<T> eps, const T* weight, const T* bias) {
  using C = Compute<T>;
  if (rows == 0) return;
  const auto& level = row_level<C>();
  const Widened<T> wide_weight(weight, n), wide_bias(bias, n);
  parallel_for(
      0, rows, 1,
      [&](int64_t lo, int64_t hi) {
        const RowScratch<T> scratch(n);
        for (int64_t r = lo; r < hi; ++r) {
          const C* row = scratch.read(x + r * n);
          C center, m2;
          level.moments(row, n, &center, &m2);
          const C scale = reciprocal_deviation(m2, n, eps);
          level.normalize(row, scratch.target(y + r * n), n, center, scale, wide_weight.get(),
                          wide_bias.get());
          scratch.finish(y + r * n);
          if (mean != nullptr) mean[r] = center;
          if (rstd != nullptr) rstd[r] = scale;
        }
      },
      element_us * static_cast<double>(n));
}

template <class T>
void group_norm(const T* x, T* y, Compute<T>* mean, Compute<T>* rstd, int64_t batch,
                int64_t channels, int64_t groups, int64_t inner, Compute<T> eps, const T* weight,
                const T* bias) {
  using C = Compute<T>;
  const auto& level = row_level<C>();
  const int64_t per_group = channels / groups, n = per_group * inner;
  const Widened<T> weights(weight, channels), biases(bias, channels);
  parallel_for(
      0, batch * groups, 1,
      [&](int64_t lo, int64_t hi) {
        const RowScratch<T> scratch(n);
        for (int64_t r = lo; r < hi; ++r) {
          const C* row = scratch.read(x + r * n);
          C* const target = scratch.target(y + r * n);
          C center, m2;
          level.moments(row, n, &center, &m2);
          const C deviation = reciprocal_deviation(m2, n, eps);
          for (int64_t i = 0; i < per_group; ++i) {
            const int64_t c = r % groups * per_group + i;
            const C scale = weights.get() ? deviation * weights.get()[c] : deviation;
            const C shift = biases.get() ? biases.get()[c] : C(0);
            level.scale(row + i * inner, target + i * inner, inner, center, scale, shift);
          }
          scratch.finish(y + r * n);
          if (mean != nullptr) mean[r] = center;
          if (rstd != nullptr) rstd[r] = deviation;
        }
      },
      element_us * static_cast<double>(n));
}

template <class T>
void row_moments(const T* x, Compute<T>* mean, Compute<T>* m2, int64_t rows, int64_t n) {
  const auto& level = row_level<Compute<T>>();
  parallel_for(
      0, rows, 1,
      [&](int64_t lo, int64_t hi) {
        const RowScratch<T> scratch(n);
        for (int64_t r = lo; r < hi; ++r)
          level.moments(scratch.read(x + r * n), n, mean + r, m2 + r);
      },
      element_us * static_cast<double>(n));
}

template <class T>
void channel_moments(const T* x, Compute<T>* mean, Compute<T>* m2, int64_t batch, int64_t channels,
                     int64_t inner) {
  using C = Compute<T>;
  if (inner == 1)
    return for_each_part_of_channels(batch, channels, [&](int64_t c, int64_t n) {
      moments_of_columns(x + c, mean + c, m2 + c, batch, channels, n);
    });
  const auto& level = row_level<C>();
  parallel_for(
      0, channels, 1,
      [&](int64_t lo, int64_t hi) {
        const RowScratch<T> scratch(inner);
        for (int64_t c = lo; c < hi; ++c) {
          Merged all;
          for (int64_t b = 0; b < batch; ++b) {
            C part_mean, part_m2;
            level.moments(scratch.read(x + (b * channels + c) * inner), inner, &part_mean,
                          &part_m2);
            all.add(static_cast<double>(inner), part_mean, part_m2);
          }
          mean[c] = static_cast<C>(all.mean);
          m2[c] = static_cast<C>(all.m2);
        }
      },
      element_us * static_cast<double>(batch * inner));
}

template <class T>
static void scale_columns(const T* x, T* y, int64_t batch, int64_t channels,
                          const Compute<T>* center, const Compute<T>* scale,
                          const Compute<T>* shift) {
  using C = Compute<T>;
  const std::vector<C> none(center && shift ? 0 : static_cast<size_t>(channels), C(0));
  const C *from = center ? center : none.data(), *to = shift ? shift : none.data();
  parallel_for(
      0, batch, 1,
      [&](int64_t lo, int64_t hi) {
        const RowScratch<T> scratch(channels);
        for (int64_t r = lo; r < hi; ++r) {
          const C* row = scratch.read(x + r * channels);
          C* out = scratch.target(y + r * channels);
          for (int64_t i = 0; i < channels; ++i) out[i] = (row[i] - from[i]) * scale[i] + to[i];
          scratch.finish(y + r * channels);
        }
      },
      element_us * static_cast<double>(channels));
}

template <class T>
void scale_channels(const T* x, T* y, int64_t batch, int64_t channels, int64_t inner,
                    const Compute<T>* center, const Compute<T>* scale, const Compute<T>* shift) {
  using C = Compute<T>;
  if (inner == 1) return scale_columns(x, y, batch, channels, center, scale, shift);
  const auto& level = row_level<C>();
  parallel_for(
      0, batch * channels, 1,
      [&](int64_t lo, int64_t hi) {
        const RowScratch<T> scratch(inner);
        for (int64_t r = lo; r < hi; ++r) {
          const int64_t c = r % channels;
          level.scale(scratch.read(x + r * inner), scratch.target(y + r * inner), inner,
                      center ? center[c] : C(0), scale[c], shift ? shift[c] : C(0));
          scratch.finish(y + r * inner);
        }
      },
      element_us * static_cast<double>(inner));
}

// Partial sums side by side, so that the compiler may use vectors.
template <class C>
void channel_gradient_sums(const C* g, const C* x, const C* center, double* of_g, double* of_gx,
                           int64_t batch, int64_t channels, int64_t inner) {
  if (inner == 1)
    return for_each_part_of_channels(batch, channels, [&](int64_t c, int64_t n) {
      std::vector<double> totals(static_cast<size_t>(2 * n));
      sum_rows_in_parts<C>(batch, 2 * n, totals.data(), [&](int64_t r, C* sums) {
        const C *gs = g + r * channels + c, *xs = x + r * channels + c;
        for (int64_t i = 0; i < n; ++i) {
          sums[i] += gs[i];
          sums[n + i] += gs[i] * (xs[i] - center[c + i]);
        }
      });
      std::copy_n(totals.begin(), n, of_g + c);
      std::copy_n(totals.begin() + n, n, of_gx + c);
    });
  constexpr int64_t lanes = 16;
  auto sum_channel = [&](int64_t c) {
    of_g[c] = of_gx[c] = 0;
    for (int64_t image = 0; image < batch; ++image) {
      const C *gs = g + (image * channels + c) * inner, *xs = x + (image * channels + c) * inner;
      C sums[lanes] = {}, products[lanes] = {};
      int64_t i = 0;
      for (; i + lanes <= inner; i += lanes)
        for (int64_t k = 0; k < lanes; ++k) {
          sums[k] += gs[i + k];
          products[k] += gs[i + k] * (xs[i + k] - center[c]);
        }
      for (int64_t k = 0; i < inner; ++i, ++k) {
        sums[k] += gs[i];
        products[k] += gs[i] * (xs[i] - center[c]);
      }
      for (int64_t k = 0; k < lanes; ++k) {
        of_g[c] += sums[k];
        of_gx[c] += products[k];
      }
    }
  };
  parallel_for(
      0, channels, 1,
      [&](int64_t lo, int64_t hi) {
        for (int64_t c = lo; c < hi; ++c) sum_channel(c);
      },
      element_us * static_cast<double>(batch * inner));
}

template <class C>
void combine_channels(const C* g, const C* x, C* y, int64_t batch, int64_t channels, int64_t inner,
                      const C* center, const C* a, const C* b, const C* d) {
  if (inner == 1) {
    auto combine_row = [&](const C* gs, const C* xs, C* to) {
      for (int64_t i = 0; i < channels; ++i)
        to[i] = gs[i] * a[i] + (xs[i] - center[i]) * b[i] + d[i];
    };
    return parallel_for(
        0, batch, 1,
        [&](int64_t lo, int64_t hi) {
          for (int64_t r = lo * channels; r < hi * channels; r += channels)
            combine_row(g + r, x + r, y + r);
        },
        element_us * static_cast<double>(channels));
  }
  parallel_for(
      0, batch * channels, 1,
      [&](int64_t lo, int64_t hi) {
        for (int64_t r = lo; r < hi; ++r) {
          const int64_t c = r % channels;
          const C *gs = g + r * inner, *xs = x + r * inner;
          const C from = center[c], of_g = a[c], of_x = b[c], shift = d[c];
          for (int64_t i = 0; i < inner; ++i)
            y[r * inner + i] = gs[i] * of_g + (xs[i] - from) * of_x + shift;
        }
      },
      element_us * static_cast<double>(inner));
}

#define TENON_NORMALIZE(T)                                                                       \
  template void layer_norm(const T*, T*, Compute<T>*, Compute<T>*, int64_t, int64_t, Compute<T>, \
                           const T*, const T*);                                                  \
  template void group_norm(const T*, T*, Compute<T>*, Compute<T>*, int64_t, int64_t, int64_t,    \
                           int64_t, Compute<T>, const T*, const T*);                             \
  template void row_moments(const T*, Compute<T>*, Compute<T>*, int64_t, int64_t);               \
  template void channel_moments(const T*, Compute<T>*, Compute<T>*, int64_t, int64_t, int64_t);  \
  template void scale_channels(const T*, T*, int64_t, int64_t, int64_t, const Compute<T>*,       \
                               const Compute<T>*, const Compute<T>*);

TENON_NORMALIZE(float)
TENON_NORMALIZE(double)
TENON_NORMALIZE(Half)
TENON_NORMALIZE(BFloat16)

#define TENON_CHANNEL_GRADIENTS(C)                                                             \
  template void channel_gradient_sums(const C*, const C*, const C*, double*, double*, int64_t, \
                                      int64_t, int64_t);                                       \
  template void combine_channels(const C*, const C*, C*, int64_t, int64_t, int64_t, const C*,  \
                                 const C*, const C*, const C*);

TENON_CHANNEL_GRADIENTS(float)
TENON_CHANNEL_GRADIENTS(double)

}  // namespace tenon::kernels
