// SPDX-License-Identifier: Apache-2.0
// Layers without parameters: activations, dropout, pooling, reshaping; with PyTorch's names and
// defaults. Each is its op of <tenon/ops.h> as a module, for Sequential and for members.
#pragma once

#include <tenon/nn/layers.h>
#include <tenon/ops/create.h>
#include <tenon/ops/nn.h>
#include <tenon/ops/pointwise.h>
#include <tenon/ops/reduce.h>

namespace tenon::nn {

// An activation is a class whose forward is one expression of x.
#define TENON_ACTIVATION(Name, expression)                                \
  struct Name : Module {                                                  \
    Tensor forward(const Tensor& x) const { return ::tenon::expression; } \
    TENON_MODULE(Name)                                                    \
  };
TENON_ACTIVATION(ReLU, relu(x))
TENON_ACTIVATION(ReLU6, relu6(x))
TENON_ACTIVATION(SELU, selu(x))
TENON_ACTIVATION(SiLU, silu(x))
TENON_ACTIVATION(Mish, mish(x))
TENON_ACTIVATION(Tanh, tanh(x))
TENON_ACTIVATION(Sigmoid, sigmoid(x))
TENON_ACTIVATION(LogSigmoid, log_sigmoid(x))
TENON_ACTIVATION(Softsign, softsign(x))
TENON_ACTIVATION(Hardsigmoid, hardsigmoid(x))
TENON_ACTIVATION(Hardswish, hardswish(x))
#undef TENON_ACTIVATION

// One with numbers has these as public members, in the order of PyTorch's arguments.
#define TENON_ACTIVATION_OF(Name, Type, member, value, expression)        \
  struct Name : Module {                                                  \
    explicit Name(Type member = value) : member(member) {}                \
    Tensor forward(const Tensor& x) const { return ::tenon::expression; } \
    Type member;                                                          \
    TENON_MODULE(Name)                                                    \
  };
TENON_ACTIVATION_OF(ELU, double, alpha, 1, elu(x, alpha))
TENON_ACTIVATION_OF(CELU, double, alpha, 1, celu(x, alpha))
TENON_ACTIVATION_OF(LeakyReLU, double, negative_slope, 0.01, leaky_relu(x, negative_slope))
TENON_ACTIVATION_OF(GELU, std::string, approximate, "none", gelu(x, approximate))
TENON_ACTIVATION_OF(GLU, int64_t, dim, -1, glu(x, dim))
TENON_ACTIVATION_OF(Softmax, int64_t, dim, -1, softmax(x, dim))
TENON_ACTIVATION_OF(LogSoftmax, int64_t, dim, -1, log_softmax(x, dim))
#undef TENON_ACTIVATION_OF

struct Hardtanh : Module {
  explicit Hardtanh(double min_val = -1, double max_val = 1) : min_val(min_val), max_val(max_val) {}
  Tensor forward(const Tensor& x) const { return hardtanh(x, min_val, max_val); }
  double min_val, max_val;
  TENON_MODULE(Hardtanh)
};
struct Softplus : Module {
  explicit Softplus(double beta = 1, double threshold = 20) : beta(beta), threshold(threshold) {}
  Tensor forward(const Tensor& x) const { return softplus(x, beta, threshold); }
  double beta, threshold;
  TENON_MODULE(Softplus)
};
class TENON_API PReLU : public Module {
 public:
  explicit PReLU(int64_t num_parameters = 1, double init = 0.25);
  Tensor forward(const Tensor& x) const { return prelu(x, weight); }
  Parameter weight;
  TENON_MODULE(PReLU, weight)
};

struct Identity : Module {
  Tensor forward(const Tensor& x) const { return x; }
  TENON_MODULE(Identity)
};

/// In training each element is zero with probability p, the others are divided by 1 - p.
class TENON_API Dropout : public Module {
 public:
  explicit Dropout(double p = 0.5);
  Tensor forward(const Tensor& x) const { return dropout(x, p_, is_training()); }
  TENON_MODULE(Dropout)

 private:
  double p_;
};

struct Flatten : Module {
  explicit Flatten(int64_t start_dim = 1, int64_t end_dim = -1)
      : start_dim(start_dim), end_dim(end_dim) {}
  Tensor forward(const Tensor& x) const { return x.flatten(start_dim, end_dim); }
  int64_t start_dim, end_dim;
  TENON_MODULE(Flatten)
};

struct MaxPool2dOptions {
  std::optional<Size2> stride = {};  ///< unset: that of the kernel
  Size2 padding = 0, dilation = 1;
  bool ceil_mode = false;
};
class TENON_API MaxPool2d : public Module {
 public:
  explicit MaxPool2d(Size2 kernel_size, const MaxPool2dOptions& options = {})
      : kernel_(kernel_size), options_(options) {}
  Tensor forward(const Tensor& x) const;
  TENON_MODULE(MaxPool2d)

 private:
  Size2 kernel_;
  MaxPool2dOptions options_;
};

struct AvgPool2dOptions {
  std::optional<Size2> stride = {};  ///< unset: that of the kernel
  Size2 padding = 0;
  bool ceil_mode = false, count_include_pad = true;
  std::optional<int64_t> divisor_override = {};
};
class TENON_API AvgPool2d : public Module {
 public:
  explicit AvgPool2d(Size2 kernel_size, const AvgPool2dOptions& options = {})
      : kernel_(kernel_size), options_(options) {}
  Tensor forward(const Tensor& x) const;
  TENON_MODULE(AvgPool2d)

 private:
  Size2 kernel_;
  AvgPool2dOptions options_;
};

class TENON_API AdaptiveAvgPool2d : public Module {
 public:
  explicit AdaptiveAvgPool2d(Size2 output_size) : output_size_(output_size) {}
  Tensor forward(const Tensor& x) const;
  TENON_MODULE(AdaptiveAvgPool2d)

 private:
  Size2 output_size_;
};

}  // namespace tenon::nn
