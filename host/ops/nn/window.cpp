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

// A window that lies in the padding has no element: its place is -1.
int64_t first_place(const PoolPlanes& p, const Window& d, const Window& h, const Window& w) {
  if (d.count == 0 || h.count == 0 || w.count == 0) return -1;
  return (d.start * p.in_sizes[1] + h.start) * p.in_sizes[2] + w.start;
}

template <class T>
Largest<ComputeOf<T>> largest_in(const T* plane, const PoolPlanes& p, const Window& d,
                                 const Window& h, const Window& w) {
  using C = ComputeOf<T>;
  Largest<C> best{lowest<C>(), first_place(p, d, h, w)};
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

// ---- floats, a row of windows at a time

// The windows [first, last) of a row that are whole and lie `stride` apart; none where a row is short
// or its windows differ.
struct RegularWindows {
  int64_t first = 0, last = 0, stride = 1;
};

RegularWindows regular_windows(const std::vector<Window>& row) {
  auto n = static_cast<int64_t>(row.size());
  auto at = [&](int64_t i) -> const Window& { return row[static_cast<size_t>(i)]; };
  RegularWindows r;
  int64_t whole = 0;
  for (const Window& w : row) whole = std::max(whole, w.count);
  while (r.first < n && at(r.first).count != whole) ++r.first;
  r.last = r.first;
  if (n - r.first < 4) return r;
  r.stride = at(r.first + 1).start - at(r.first).start;
  auto fits = [&](int64_t i) {
    return at(i).count == whole && at(i).start == at(r.first).start + (i - r.first) * r.stride;
  };
  while (r.last < n && fits(r.last)) ++r.last;
  return r;
}

// Results of windows side by side: loops over them have no branches, and become vector code.
struct BestOfRow {
  static constexpr int64_t most = 64;
  float value[most];
  int32_t place[most];

  template <int64_t known_stride>
  void take(const float* x, int64_t n, int64_t stride, int32_t at, bool with_places) {
    int64_t step = known_stride == 0 ? stride : known_stride;
    if (!with_places) {
      for (int64_t i = 0; i < n; ++i) {
        float v = x[i * step];
        value[i] = (v > value[i]) | (v != v) ? v : value[i];
      }
      return;
    }
    for (int64_t i = 0; i < n; ++i) {
      float v = x[i * step];
      bool wins = (v > value[i]) | (v != v);
      value[i] = wins ? v : value[i];
      place[i] = wins ? at + static_cast<int32_t>(i * step) : place[i];
    }
  }
};

void largest_of_row(const float* plane, const PoolPlanes& p, const Window& d, const Window& h,
                    const Window& first, int64_t n, int64_t stride, bool with_places,
                    BestOfRow& best) {
  auto place = [&](int64_t z, int64_t y) {
    return (z * p.in_sizes[1] + y) * p.in_sizes[2] + first.start;
  };
  int64_t start = first_place(p, d, h, first), step = start < 0 ? 0 : stride;
  for (int64_t i = 0; i < n; ++i) {
    best.value[i] = lowest<float>();
    best.place[i] = static_cast<int32_t>(start + i * step);
  }
  for (int64_t i = 0; i < d.count; ++i)
    for (int64_t j = 0; j < h.count; ++j)
      for (int64_t k = 0; k < first.count; ++k) {
        int64_t z = d.start + i * d.step, y = h.start + j * h.step, x = k * first.step;
        const float* row = plane + z * p.in_steps[0] + y * p.in_steps[1] + first.start + x;
        auto at = static_cast<int32_t>(place(z, y) + x);
        stride == 1   ? best.take<1>(row, n, stride, at, with_places)
        : stride == 2 ? best.take<2>(row, n, stride, at, with_places)
                      : best.take<0>(row, n, stride, at, with_places);
      }
}

// A plane whose rows lie dense.
void largest_in_plane(const float* plane, const PoolPlanes& p, const Windows& windows, float* out,
                      int64_t* places) {
  const std::vector<Window>& row = windows[2];
  RegularWindows r = regular_windows(row);
  auto one = [&](const Window& d, const Window& h, size_t x, int64_t at) {
    auto best = largest_in(plane, p, d, h, row[x]);
    out[at] = best.value;
    if (places) places[at] = best.index;
  };
  BestOfRow best;
  for (size_t z = 0; z < windows[0].size(); ++z)
    for (size_t y = 0; y < windows[1].size(); ++y) {
      const Window &d = windows[0][z], &h = windows[1][y];
      int64_t at =
          static_cast<int64_t>(z) * p.out_steps[0] + static_cast<int64_t>(y) * p.out_steps[1];
      for (int64_t x = 0; x < static_cast<int64_t>(row.size());) {
        if (x < r.first || x >= r.last) {
          one(d, h, static_cast<size_t>(x), at + x);
          ++x;
          continue;
        }
        int64_t n = std::min(BestOfRow::most, r.last - x);
        largest_of_row(plane, p, d, h, row[static_cast<size_t>(x)], n, r.stride, places != nullptr,
                       best);
        std::copy_n(best.value, n, out + at + x);
        if (places) std::copy_n(best.place, n, places + at + x);
        x += n;
      }
    }
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
  const auto& size = planes.in_sizes;
  bool is_dense = planes.in_steps[2] == 1 && planes.out_steps[2] == 1 &&
                  size[0] * size[1] * size[2] < std::numeric_limits<int32_t>::max();
  if (in.dtype() == Dtype::f32 && is_dense)
    return for_each_plane(planes, covered(windows), [&](int64_t from, int64_t to) {
      largest_in_plane(data_of<float>(in) + from, planes, windows, data_of<float>(out) + to,
                       places ? places + to : nullptr);
    });
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
