// Windows of pooling: for each output position of a dimension, the input positions that it covers.
#pragma once

#include "core/threads/thread_pool.h"
#include "ops/kernel_loops.h"
#include "ops/shapes.h"

#include <algorithm>
#include <array>
#include <vector>

namespace tenon::ops {

/// Input positions start, start + step, ...: `count` of them. `divisor` is what a mean divides by.
struct Window {
  int64_t start, count, step, divisor;
};

/// All windows of a pooling over the last three dimensions; missing ones have one window of one.
using Windows = std::array<std::vector<Window>, 3>;

/// A plane (one channel of one image) of the input and of the results, with distances in space.
struct PoolPlanes {
  Walk<2> walk;  // operand 0 is the input, 1 the results
  std::array<int64_t, 3> in_sizes{1, 1, 1}, in_steps{0, 0, 0}, out_steps{0, 0, 0};
};

inline PoolPlanes planes_of(const Tensor& in, const Tensor& out, size_t n_space) {
  PoolPlanes p;
  size_t leading = static_cast<size_t>(in.dim()) - n_space;
  for (size_t d = 0; d < leading; ++d)
    p.walk.add(sizes_of(in)[d], {strides_of(in)[d], strides_of(out)[d]});
  for (size_t d = 0; d < n_space; ++d) {
    size_t at = 3 - n_space + d;
    p.in_sizes[at] = sizes_of(in)[leading + d];
    p.in_steps[at] = strides_of(in)[leading + d];
    p.out_steps[at] = strides_of(out)[leading + d];
  }
  return p;
}

/// Calls body(input offset, output offset) for each plane, on the threads of the pool.
template <class F>
void for_each_plane(const PoolPlanes& planes, int64_t work_per_plane, const F& body) {
  std::vector<Offsets<2>> at;
  for_each_offset(planes.walk, [&](const Offsets<2>& offsets) { at.push_back(offsets); });
  parallel_for(0, static_cast<int64_t>(at.size()),
               std::max<int64_t>(1, 16384 / std::max<int64_t>(1, work_per_plane)),
               [&](int64_t lo, int64_t hi) {
                 for (int64_t i = lo; i < hi; ++i)
                   body(at[static_cast<size_t>(i)][0], at[static_cast<size_t>(i)][1]);
               });
}

/// Calls f(window of each dimension, offset of the output) for each output position of a plane.
template <class F>
void for_each_window(const Windows& windows, const std::array<int64_t, 3>& steps, int64_t out,
                     const F& f) {
  int64_t at_depth = out;
  for (const Window& d : windows[0]) {
    int64_t at_row = at_depth;
    for (const Window& h : windows[1]) {
      int64_t at = at_row;
      for (const Window& w : windows[2]) {
        f(d, h, w, at);
        at += steps[2];
      }
      at_row += steps[1];
    }
    at_depth += steps[0];
  }
}

/// Windows of a pooling with kernel, stride, padding and dilation. `with_padding`: padding counts
/// in the divisor.
inline std::vector<Window> kernel_windows(int64_t in, int64_t out, int64_t kernel, int64_t stride,
                                          int64_t padding, int64_t dilation, bool with_padding) {
  std::vector<Window> windows;
  for (int64_t i = 0; i < out; ++i) {
    int64_t start = i * stride - padding,
            end = std::min(start + (kernel - 1) * dilation + 1, in + padding);
    int64_t padded = end - start;
    if (start < 0) start += (-start + dilation - 1) / dilation * dilation;
    end = std::min(end, in);
    int64_t count = end > start ? (end - start + dilation - 1) / dilation : 0;
    windows.push_back({start, count, dilation, with_padding ? padded : count});
  }
  return windows;
}

/// Windows that share out the input as evenly as possible; neighbours may overlap by one.
inline std::vector<Window> adaptive_windows(int64_t in, int64_t out) {
  std::vector<Window> windows;
  for (int64_t i = 0; i < out; ++i) {
    int64_t start = i * in / out, end = ((i + 1) * in + out - 1) / out;
    windows.push_back({start, end - start, 1, end - start});
  }
  return windows;
}

inline Windows one_window_each() {
  Windows windows;
  for (auto& w : windows) w = {{0, 1, 1, 1}};
  return windows;
}

inline int64_t covered(const Windows& windows) {
  int64_t n = 1;
  for (const auto& dim : windows) {
    int64_t sum = 0;
    for (const Window& w : dim) sum += w.count;
    n *= sum;
  }
  return n;
}

// ---- kernels

/// out = the largest element of each window, NaN before all; indices (may be undefined) = its place
/// in the plane, -1 where the window has none.
void max_over_windows(const Tensor& out, const Tensor& indices, const Tensor& in,
                      const Windows& windows, size_t n_space);
/// out = the sum over each window divided by its divisor, or by `divisor` where that is not 0.
void mean_over_windows(const Tensor& out, const Tensor& in, const Windows& windows, size_t n_space,
                       int64_t divisor);

}  // namespace tenon::ops
