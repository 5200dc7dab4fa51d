// What the tests of recorded functions share.
#pragma once

#include "double.h"
#include "float_kernels.h"
#include "recorded_function.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tenon {

using Floats = std::vector<float>;
using Tensors = std::vector<Tensor>;

class CudaTrees : public testing::Test {
 protected:
  void SetUp() override { TENON_NEEDS_THE_DOUBLE(); }
};

inline Tensor on_gpu(int64_t n, double value) { return moved(gpu, full({n}, value)); }
inline Floats all(size_t n, float value) { return Floats(n, value); }

/// z = (a + b) + b, over a temporary.
inline Tensors two_sums(FloatKernels& k, tn_call& c,
                        FloatKernels::Known known = FloatKernels::Known::yes) {
  Tensor a = input(c, 0), b = input(c, 1), t = new_floats({a.numel()}), z = new_floats({a.numel()});
  k.sum(c, t, a, b, known);
  k.sum(c, z, t, b, known);
  return {z};
}

/// The same, and a + b saved for a backward.
inline Tensors saving_sums(FloatKernels& k, tn_call& c) {
  Tensor a = input(c, 0), y = new_floats({a.numel()});
  k.sum(c, y, a, input(c, 1));
  return {two_sums(k, c)[0], y};
}
inline RecordedFunction::About forward_of_sums(std::string name = "f") {
  return {.name = std::move(name),
          .flags = TN_CUDA_FN_FORWARD,
          .outputs = TN_CUDA_OUTPUTS_POOL,
          .inputs = {0, 0},
          .results = {0, TN_CUDA_OUTPUT_SAVED}};
}

}  // namespace tenon
