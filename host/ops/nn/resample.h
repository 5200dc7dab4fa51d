// Resampling of the last one to three dimensions: nearest, linear and cubic, with and without
// smoothing where the result is smaller.
#pragma once

#include "core/tensor/tensor_impl.h"

#include <optional>

namespace tenon::ops {

using Scale = std::optional<double>;
enum class Interpolation { nearest, nearest_exact, linear, cubic };

struct Resampling {
  Interpolation kind = Interpolation::linear;
  bool align_corners = false;
  bool antialias = false;
  std::array<Scale, 3> scales = {};  ///< of the last dimensions, in order
  size_t n = 2;                      ///< dimensions of space
};

/// Throws UserError for dtypes that only the nearest element serves.
inline void check_weighted(Dtype dtype) {
  require(is_floating(dtype), ErrorCode::unsupported,
          "upsampling by interpolation needs a floating dtype, found {}; cast the input", dtype);
}
/// Fills `out`, whose sizes say how far to stretch, from `self`. Nearest takes any dtype, the
/// others floating ones.
void resample(const Tensor& out, const Tensor& self, const Resampling& r);
/// The derivative by `self`, whose sizes `grad_input` has.
void resample_backward(const Tensor& grad_input, const Tensor& grad, const Resampling& r);

}  // namespace tenon::ops
