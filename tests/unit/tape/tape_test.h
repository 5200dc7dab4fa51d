// What the tests of compiled passes share.
#pragma once

#include "core/tensor/allocator.h"
#include "unit/autograd/autograd_test.h"

#include <tenon/compile.h>
#include <tenon/compiled_autograd.h>
#include <tenon/config.h>

#include <functional>

namespace tenon {

namespace ca = compiled_autograd;

class PassTest : public testing::Test {
 protected:
  PassTest() { ca::reset(); }
  ~PassTest() override { ca::reset(); }

  /// Captures that `body` makes.
  static int64_t captures(const std::function<void()>& body) {
    int64_t before = ca::stats().captures;
    auto on = ca::enable("aot_eager");
    body();
    return ca::stats().captures - before;
  }
};

inline Tensor filled(IntList sizes, Dtype dtype = Dtype::f32) {
  int64_t n = 1;
  for (int64_t s : sizes) n *= s;
  std::vector<double> values;
  for (int64_t i = 0; i < n; ++i)
    values.push_back(static_cast<double>((7 * i + 3) % 11) * 0.25 - 1);
  return tensor(values, sizes).to(dtype);
}
inline bool close(const Tensor& found, const Tensor& wanted) {
  Tensor bound = wanted.abs() * 1e-5 + 1e-6;
  return found.sizes() == wanted.sizes() &&
         static_cast<bool>(((found - wanted).abs() <= bound).all());
}
inline Tensor parameter(IntList sizes) { return filled(sizes).requires_grad_(); }

/// What the allocator gives out at most while `body` runs, beyond what was out before.
inline int64_t peak_of(const std::function<void()>& body) {
  reset_allocator_peak();
  int64_t before = allocator_stats().current_bytes;
  body();
  return allocator_stats().peak_bytes - before;
}

}  // namespace tenon
