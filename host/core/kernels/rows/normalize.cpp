// Normalisation over rows, groups and channels.
//
// A row's moments take two passes: the mean pairwise, then the squared differences from it, with
// the sum of the plain differences as a correction (T. Chan, G. Golub, R. LeVeque, "Algorithms for
// computing the sample variance", 1983). Moments of the segments of a channel are merged in double
// by the rule of the same authors.
#include "core/kernels/rows/normalize.h"

#include "core/kernels/rows/normalize_columns.h"

#include "core/threads/thread_pool.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace tenon::kernels {
namespace {

constexpr double normalize_us = 0.0002;

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

template <class T>
columns::Rows rows_of(const T* x, int64_t width) {
  if constexpr (std::is_same_v<T, Half>)
    return {x, width * int64_t{sizeof(T)}, kernel_table().from_f16, kernel_table().to_f16};
  else if constexpr (std::is_same_v<T, BFloat16>)
    return {x, width * int64_t{sizeof(T)}, kernel_table().from_bf16, kernel_table().to_bf16};
  else
    return {x, width * int64_t{sizeof(T)}, nullptr, nullptr};
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
      normalize_us * static_cast<double>(n));
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
      normalize_us * static_cast<double>(n));
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
      normalize_us * static_cast<double>(n));
}

// Moments of parts, joined, make NaN of infinite elements; channels, unlike rows, have ATen's mean
// of these, which is infinite.
template <class T>
double plain_mean(const T* x, int64_t batch, int64_t step, int64_t inner) {
  double sum = 0;
  for (int64_t b = 0; b < batch; ++b)
    for (int64_t i = 0; i < inner; ++i) sum += static_cast<double>(x[b * step + i]);
  return sum / static_cast<double>(batch * inner);
}

template <class T>
void channel_moments(const T* x, Compute<T>* mean, Compute<T>* m2, int64_t batch, int64_t channels,
                     int64_t inner) {
  using C = Compute<T>;
  if (inner == 1) return columns::moments<C>(rows_of(x, channels), mean, m2, batch, channels);
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
          if (std::isnan(all.mean))
            all.mean = plain_mean(x + c * inner, batch, channels * inner, inner);
          mean[c] = static_cast<C>(all.mean);
          m2[c] = static_cast<C>(all.m2);
        }
      },
      normalize_us * static_cast<double>(batch * inner));
}

template <class T>
void scale_channels(const T* x, T* y, int64_t batch, int64_t channels, int64_t inner,
                    const Compute<T>* center, const Compute<T>* scale, const Compute<T>* shift) {
  using C = Compute<T>;
  if (inner == 1)
    return columns::scale<C>(rows_of(x, channels), y, batch, channels, center, scale, shift);
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
      normalize_us * static_cast<double>(inner));
}

// Partial sums side by side, so that the compiler may use vectors.
template <class C>
void channel_gradient_sums(const C* g, const C* x, const C* center, double* of_g, double* of_gx,
                           int64_t batch, int64_t channels, int64_t inner) {
  if (inner == 1) return columns::gradient_sums(g, x, center, of_g, of_gx, batch, channels);
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
      normalize_us * static_cast<double>(batch * inner));
}

template <class C>
void combine_channels(const C* g, const C* x, C* y, int64_t batch, int64_t channels, int64_t inner,
                      const C* center, const C* a, const C* b, const C* d) {
  if (inner == 1) return columns::combine(g, x, y, batch, channels, center, a, b, d);
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
      normalize_us * static_cast<double>(inner));
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
