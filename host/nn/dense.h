// What layers with dense weights share.
#pragma once

#include <tenon/nn/init.h>
#include <tenon/tensor.h>

#include <cmath>

namespace tenon::nn {

/// What PyTorch's linear and convolution layers begin with: the bound of kaiming_uniform_ with
/// a = sqrt(5), which is 1 / sqrt(fan in), for weight and bias alike.
inline void reset_dense(const Tensor& weight, const Tensor& bias) {
  int64_t fan_in = init::fans_of(weight).in;
  double bound = fan_in > 0 ? 1 / std::sqrt(static_cast<double>(fan_in)) : 0;
  init::uniform_(weight, -bound, bound);
  if (bias.defined()) init::uniform_(bias, -bound, bound);
}

inline void require_positive(std::string_view layer, std::string_view what, int64_t value) {
  require(value > 0, "{}: expected {} of 1 or more, found {}", layer, what, value);
}

inline void require_channels(std::string_view layer, int64_t in, int64_t out, int64_t groups) {
  require_positive(layer, "in_channels", in);
  require_positive(layer, "out_channels", out);
  require_positive(layer, "groups", groups);
  require(in % groups == 0 && out % groups == 0,
          "{}: expected in_channels and out_channels to be multiples of groups = {}, found {} and "
          "{}",
          layer, groups, in, out);
}

}  // namespace tenon::nn
