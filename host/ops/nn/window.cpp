// The two loops of pooling: largest element and mean of windows.
#include "ops/nn/window.h"

#include <cmath>
#include <limits>

namespace tenon::ops {

namespace {

template <class C>
C lowest() {
  if constexpr (std::numeric_limits<C>::has_infinity)
    return -std::numeric_limits<C>::infinity();
  else
    return std::numeric_limits<C>::lowest();
}

template <class C>
struct Largest {
  C value;
  int64_t index;
};

template <class T>
Largest<ComputeOf<T>> largest_in(const T* plane, const PoolPlanes& p, const Window& d,
                                 const Window& h, const Window& w) {
  using C = ComputeOf<T>;
  Largest<C> best{lowest<C>(), (d.start * p.in_sizes[1] + h.start) * p.in_sizes[2] + w.start};
  for (int64_t i = 0; i < d.count; ++i)
    for (int64_t j = 0; j < h.count; ++j) {
      int64_t z = d.start + i * d.step, y = h.start + j * h.step;
      const T* row = plane + z * p.in_steps[0] + y * p.in_steps[1] + w.start * p.in_steps[2];
      for (int64_t k = 0; k < w.count; ++k) {
        C x = static_cast<C>(row[k * w.step * p.in_steps[2]]);
        if (x > best.value || is_nan(x))
          best = {x, (z * p.in_sizes[1] + y) * p.in_sizes[2] + w.start + k * w.step};
      }
    }
  return best;
}

template <class T>
using SumType = std::conditional_t<is_float_type<T>, ComputeOf<T>, int64_t>;

template <class T>
SumType<T> sum_in(const T* plane, const PoolPlanes& p, const Window& d, const Window& h,
                  const Window& w) {
  SumType<T> sum = 0;
  for (int64_t i = 0; i < d.count; ++i)
    for (int64_t j = 0; j < h.count; ++j) {
      const T* row = plane + (d.start + i) * p.in_steps[0] + (h.start + j) * p.in_steps[1] +
                     w.start * p.in_steps[2];
      for (int64_t k = 0; k < w.count; ++k) sum += static_cast<SumType<T>>(row[k * p.in_steps[2]]);
    }
  return sum;
}

}  // namespace

void max_over_windows(const Tensor& out, const Tensor& indices, const Tensor& in,
                      const Windows& windows, size_t n_space) {
  PoolPlanes planes = planes_of(in, out, n_space);
  int64_t* places = indices.defined() ? data_of<int64_t>(indices) : nullptr;
  dispatch_dtype(in.dtype(), "max pooling", [&]<class T>() {
    for_each_plane(planes, covered(windows), [&](int64_t from, int64_t to) {
      for_each_window(windows, planes.out_steps, to,
                      [&](const Window& d, const Window& h, const Window& w, int64_t at) {
                        auto best = largest_in(data_of<T>(in) + from, planes, d, h, w);
                        data_of<T>(out)[at] = static_cast<T>(best.value);
                        if (places) places[at] = best.index;
                      });
    });
  });
}

void mean_over_windows(const Tensor& out, const Tensor& in, const Windows& windows, size_t n_space,
                       int64_t divisor) {
  PoolPlanes planes = planes_of(in, out, n_space);
  dispatch_dtype(in.dtype(), "average pooling", [&]<class T>() {
    for_each_plane(planes, covered(windows), [&](int64_t from, int64_t to) {
      for_each_window(windows, planes.out_steps, to,
                      [&](const Window& d, const Window& h, const Window& w, int64_t at) {
                        SumType<T> sum = 0;
                        int64_t by = divisor ? divisor : d.divisor * h.divisor * w.divisor;
                        if (d.count && h.count && w.count)
                          sum = sum_in(data_of<T>(in) + from, planes, d, h, w) /
                                static_cast<SumType<T>>(by);
                        data_of<T>(out)[at] = static_cast<T>(sum);
                      });
    });
  });
}

}  // namespace tenon::ops
