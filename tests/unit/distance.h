// How far two tensors are apart, for tests that allow for rounding.
#pragma once

#include <tenon/tenon.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace tenon {

/// The largest difference of two elements in f64; infinite where the sizes differ, or only one is
/// NaN or infinite.
inline double distance(const Tensor& a, const Tensor& b) {
  constexpr double infinite = std::numeric_limits<double>::infinity();
  std::vector<double> x = a.detach().to(Dtype::f64).to_vector<double>(),
                      y = b.detach().to(Dtype::f64).to_vector<double>();
  double most = x.size() == y.size() ? 0 : infinite;
  for (size_t i = 0; i < std::min(x.size(), y.size()); ++i) {
    if (x[i] == y[i] || (std::isnan(x[i]) && std::isnan(y[i]))) continue;
    double d = std::fabs(x[i] - y[i]);
    most = std::isnan(d) ? infinite : std::max(most, d);
  }
  return most;
}

}  // namespace tenon
