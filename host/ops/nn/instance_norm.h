// Normalisation of each channel of each image, with what it makes of running statistics.
#pragma once

#include <tenon/tensor.h>

namespace tenon::ops {

struct InstanceNorm {
  Tensor result, running_mean, running_var;
};

/// instance_norm with the statistics of its input, where it has running ones: those that it leaves
/// are results, nothing is written.
InstanceNorm instance_norm_functional(const Tensor& input, const Tensor& weight, const Tensor& bias,
                                      const Tensor& running_mean, const Tensor& running_var,
                                      double momentum, double eps);

}  // namespace tenon::ops
