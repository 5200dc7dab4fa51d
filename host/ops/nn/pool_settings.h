// The settings of pooling with a sliding kernel, and the windows that follow from them.
#pragma once

#include "ops/nn/window.h"

namespace tenon::ops {

struct PoolSettings {
  std::array<int64_t, 3> kernel{1, 1, 1}, stride{1, 1, 1}, padding{0, 0, 0}, dilation{1, 1, 1};
  size_t n = 0;  // dimensions of space
  bool ceil_mode = false;
};

inline std::array<int64_t, 3> spread(std::string_view name, IntList values, size_t n,
                                     int64_t missing) {
  require(values.size() == n || values.size() == 1,
          "pooling: {} must have 1 or {} values, found {}", name, n, values);
  std::array<int64_t, 3> out{missing, missing, missing};
  for (size_t d = 0; d < n; ++d) out[3 - n + d] = values[values.size() == 1 ? 0 : d];
  return out;
}

inline PoolSettings pool_settings(size_t n, IntList kernel, IntList stride, IntList padding,
                                  IntList dilation, bool ceil_mode) {
  PoolSettings s{spread("kernel_size", kernel, n, 1),
                 spread("stride", stride.empty() ? kernel : stride, n, 1),
                 spread("padding", padding, n, 0),
                 spread("dilation", dilation, n, 1),
                 n,
                 ceil_mode};
  for (size_t d = 0; d < 3; ++d) {
    require(s.kernel[d] > 0 && s.stride[d] > 0 && s.dilation[d] > 0,
            "pooling: kernel_size, stride and dilation must be positive");
    require(
        s.padding[d] >= 0 && s.padding[d] <= s.kernel[d] / 2,
        "pooling: padding must be at most half of kernel_size, found padding {} for kernel_size {}",
        s.padding[d], s.kernel[d]);
  }
  return s;
}

// With ceil_mode the last window may hang over the end, but must begin inside the input or its left
// padding.
inline SymInt pooled_size(SymInt in, const PoolSettings& s, size_t d) {
  SymInt reach = SymInt(s.dilation[d]) * (s.kernel[d] - 1) + 1;
  SymInt room = in + 2 * s.padding[d] - reach + (s.ceil_mode ? s.stride[d] - 1 : 0);
  SymInt out = room / s.stride[d] + 1;
  if (s.ceil_mode && bool((out - 1) * s.stride[d] >= in + s.padding[d])) out = out - 1;
  return out;
}

/// The sizes of what pooling `self` gives; throws UserError where the kernel does not fit.
inline Dims pooled_sizes(std::string_view op, const Tensor& self, const PoolSettings& s) {
  size_t rank = self.sizes().size();
  require(rank == s.n + 1 || rank == s.n + 2,
          "{}: input must have {} or {} dimensions, found shape {}", op, s.n + 1, s.n + 2,
          self.sizes());
  Dims sizes = dims_of(self.sizes());
  for (size_t d = 0; d < s.n; ++d) {
    SymInt& size = sizes[rank - s.n + d];
    size = pooled_size(size, s, 3 - s.n + d);
    require(expect_true(size >= 1), "{}: the kernel does not fit into the padded input of shape {}",
            op, self.sizes());
  }
  return sizes;
}

inline Windows windows_of(const Tensor& out, const Tensor& in, const PoolSettings& s,
                          bool with_padding) {
  Windows windows = one_window_each();
  size_t rank = static_cast<size_t>(in.dim());
  for (size_t d = 0; d < s.n; ++d) {
    size_t at = 3 - s.n + d;
    windows[at] =
        kernel_windows(sizes_of(in)[rank - s.n + d], sizes_of(out)[rank - s.n + d], s.kernel[at],
                       s.stride[at], s.padding[at], s.dilation[at], with_padding);
  }
  return windows;
}

}  // namespace tenon::ops
