// Short words of the tests of capture.
#pragma once

#include <tenon/compile.h>
#include <tenon/ops.h>

#include <initializer_list>
#include <vector>

namespace tenon {

/// Backends that compute as eager does, at three depths.
inline constexpr const char* backends[] = {"eager", "aot_eager", "aot_eager_decomp_partition"};
inline const Options eager{.backend = "eager"};

inline Tensor row(std::initializer_list<float> v) { return tensor(v); }
inline Tensor twice(const Tensor& x) { return x * 2.0; }
/// The elements, one row after the other.
inline std::vector<float> values(const Tensor& t) {
  return t.detach().reshape({-1}).to_vector<float>();
}

}  // namespace tenon
