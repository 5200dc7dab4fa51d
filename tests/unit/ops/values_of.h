// Elements of a tensor, for tests of ops.
#pragma once

#include <tenon/ops/copy.h>

#include <vector>

namespace tenon {

/// In double precision, one row after the other.
inline std::vector<double> values_of(const Tensor& t) {
  return to(t.detach(), Dtype::f64).to_vector<double>();
}

}  // namespace tenon
