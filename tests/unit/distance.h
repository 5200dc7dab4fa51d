// How far two tensors are apart, for tests that allow for rounding.
#pragma once

#include <tenon/tenon.h>

namespace tenon {

/// The largest absolute difference of two elements.
inline double distance(const Tensor& a, const Tensor& b) {
  return a.sub(b).abs().max().to(Dtype::f64).item<double>();
}

}  // namespace tenon
