// SPDX-License-Identifier: Apache-2.0
// Initialisers: fill a tensor in place, under PyTorch's names and with its formulas.
//
//     nn::init::kaiming_normal_(net.fc1.weight, {.nonlinearity = nn::init::Nonlinearity::relu});
//
// Numbers come from the generator of <tenon/random.h>. Nothing is recorded for gradients. Threads:
// as for any write to the tensor. Throws UserError where a shape has no fans.
#pragma once

#include <tenon/tensor.h>

namespace tenon::nn::init {

TENON_API void uniform_(const Tensor& t, double from = 0, double to = 1);
TENON_API void normal_(const Tensor& t, double mean = 0, double std = 1);
TENON_API void constant_(const Tensor& t, double value);
TENON_API void zeros_(const Tensor& t);
TENON_API void ones_(const Tensor& t);
/// A normal distribution of which what lies outside of [low, high] is drawn again.
TENON_API void trunc_normal_(const Tensor& t, double mean = 0, double std = 1, double low = -2,
                             double high = 2);
/// Orthonormal rows or columns, whichever are fewer; dimensions after the first count as one.
TENON_API void orthogonal_(const Tensor& t, double gain = 1);

enum class FanMode { fan_in, fan_out };
enum class Nonlinearity { linear, sigmoid, tanh, relu, leaky_relu, selu };
/// How many inputs reach one output, and the reverse, for a weight of two dimensions or more.
struct Fans {
  int64_t in = 0, out = 0;
};
TENON_API Fans fans_of(const Tensor& weight);
/// The factor that keeps the variance through this function; `slope` is that of leaky_relu.
TENON_API double calculate_gain(Nonlinearity nonlinearity, double slope = 0.01);

TENON_API void xavier_uniform_(const Tensor& t, double gain = 1);
TENON_API void xavier_normal_(const Tensor& t, double gain = 1);

struct KaimingOptions {
  double a = 0;  ///< negative slope of leaky_relu
  FanMode mode = FanMode::fan_in;
  Nonlinearity nonlinearity = Nonlinearity::leaky_relu;
};
TENON_API void kaiming_uniform_(const Tensor& t, const KaimingOptions& options = {});
TENON_API void kaiming_normal_(const Tensor& t, const KaimingOptions& options = {});

}  // namespace tenon::nn::init
