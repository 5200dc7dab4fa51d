// SPDX-License-Identifier: Apache-2.0
// Layers without parameters: activations, dropout, pooling, reshaping; with PyTorch's names and
// defaults. Each is its op of <tenon/ops.h> as a module, for Sequential and for members.
#pragma once

#include <tenon/nn/convolution.h>
#include <tenon/ops/create.h>
#include <tenon/ops/nn.h>
#include <tenon/ops/pointwise.h>
#include <tenon/ops/reduce.h>
#include <tenon/ops/view.h>

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
TENON_ACTIVATION(Tanhshrink, sub(x, x.tanh()))
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
TENON_ACTIVATION_OF(Softmin, int64_t, dim, -1, softmax(x.neg(), dim))
TENON_ACTIVATION_OF(Hardshrink, double, lambd, 0.5, hardshrink(x, lambd))
TENON_ACTIVATION_OF(Softshrink, double, lambd, 0.5, softshrink(x, lambd))
#undef TENON_ACTIVATION_OF

// The same without a default.
#define TENON_STATELESS_OF(Name, Type, member, expression)       \
  struct Name : Module {                                         \
    explicit Name(Type member) : member(member) {}               \
    Tensor forward(const Tensor& x) const { return expression; } \
    Type member;                                                 \
    TENON_MODULE(Name)                                           \
  };

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

/// Dropout of whole features: dimension 1 of a batch.
class TENON_API FeatureDropout : public Module {
 public:
  explicit FeatureDropout(double p = 0.5);
  Tensor forward(const Tensor& x) const { return feature_dropout(x, p_, is_training()); }
  TENON_MODULE(FeatureDropout)

 private:
  double p_;
};
using Dropout1d = FeatureDropout;
using Dropout2d = FeatureDropout;
using Dropout3d = FeatureDropout;

/// Dropout that keeps mean and variance of what SELU gives.
class TENON_API AlphaDropout : public Module {
 public:
  explicit AlphaDropout(double p = 0.5);
  Tensor forward(const Tensor& x) const { return alpha_dropout(x, p_, is_training()); }
  TENON_MODULE(AlphaDropout)

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

struct Unflatten : Module {
  Unflatten(int64_t dim, std::vector<int64_t> sizes) : dim(dim), sizes(std::move(sizes)) {}
  Tensor forward(const Tensor& x) const { return x.unflatten(dim, IntList(sizes)); }
  int64_t dim;
  std::vector<int64_t> sizes;
  TENON_MODULE(Unflatten)
};
TENON_STATELESS_OF(PixelShuffle, int64_t, upscale_factor, pixel_shuffle(x, upscale_factor))
TENON_STATELESS_OF(PixelUnshuffle, int64_t, downscale_factor, pixel_unshuffle(x, downscale_factor))
TENON_STATELESS_OF(ChannelShuffle, int64_t, groups, channel_shuffle(x, groups))

enum class UpsampleMode { nearest, linear, bilinear, bicubic, trilinear };
struct UpsampleOptions {
  std::vector<int64_t> size = {};  ///< of the result, a number a dimension; or one for all
  std::vector<double> scale_factor = {};
  UpsampleMode mode = UpsampleMode::nearest;
  bool align_corners = false;  ///< not of nearest
};
/// Resizes the dimensions behind batch and channels.
class TENON_API Upsample : public Module {
 public:
  /// Throws UserError unless one of size and scale_factor is given.
  explicit Upsample(UpsampleOptions options);
  Tensor forward(const Tensor& x) const;
  TENON_MODULE(Upsample)

 private:
  UpsampleOptions options_;
};

/// What is added around the last dimensions: pairs of numbers, those of the last dimension first.
struct Padding : Module {
  Padding(std::string mode, std::vector<int64_t> sizes, double value = 0)
      : mode(std::move(mode)), sizes(std::move(sizes)), value(value) {}
  Tensor forward(const Tensor& x) const {
    return pad(x, IntList(sizes), mode,
               mode == "constant" ? std::optional(value) : std::optional<double>());
  }
  std::string mode;
  std::vector<int64_t> sizes;
  double value;
  TENON_MODULE(Padding)
};
// One number stands for all sides, or there are 2 numbers for each of `dims` dimensions.
#define TENON_PADDING(Name, mode, dims)                                                \
  struct Name : Padding {                                                              \
    explicit Name(int64_t all) : Padding(mode, std::vector<int64_t>(2 * dims, all)) {} \
    explicit Name(const std::array<int64_t, 2 * dims>& sides)                          \
        : Padding(mode, {sides.begin(), sides.end()}) {}                               \
    std::string_view type_name() const override { return #Name; }                      \
  };
TENON_PADDING(ReflectionPad1d, "reflect", 1)
TENON_PADDING(ReflectionPad2d, "reflect", 2)
TENON_PADDING(ReflectionPad3d, "reflect", 3)
TENON_PADDING(ReplicationPad1d, "replicate", 1)
TENON_PADDING(ReplicationPad2d, "replicate", 2)
TENON_PADDING(ReplicationPad3d, "replicate", 3)
TENON_PADDING(CircularPad1d, "circular", 1)
TENON_PADDING(CircularPad2d, "circular", 2)
TENON_PADDING(CircularPad3d, "circular", 3)
TENON_PADDING(ZeroPad1d, "constant", 1)
TENON_PADDING(ZeroPad2d, "constant", 2)
TENON_PADDING(ZeroPad3d, "constant", 3)
#undef TENON_PADDING

struct MaxPool1dOptions {
  std::optional<int64_t> stride = {};  ///< unset: that of the kernel
  int64_t padding = 0, dilation = 1;
  bool ceil_mode = false;
};
class TENON_API MaxPool1d : public Module {
 public:
  explicit MaxPool1d(int64_t kernel_size, const MaxPool1dOptions& options = {})
      : kernel_(kernel_size), options_(options) {}
  Tensor forward(const Tensor& x) const;
  TENON_MODULE(MaxPool1d)

 private:
  int64_t kernel_;
  MaxPool1dOptions options_;
};
struct AvgPool1dOptions {
  std::optional<int64_t> stride = {};  ///< unset: that of the kernel
  int64_t padding = 0;
  bool ceil_mode = false, count_include_pad = true;
};
class TENON_API AvgPool1d : public Module {
 public:
  explicit AvgPool1d(int64_t kernel_size, const AvgPool1dOptions& options = {})
      : kernel_(kernel_size), options_(options) {}
  Tensor forward(const Tensor& x) const;
  TENON_MODULE(AvgPool1d)

 private:
  int64_t kernel_;
  AvgPool1dOptions options_;
};

struct MaxPool3dOptions {
  std::optional<Size3> stride = {};  ///< unset: that of the kernel
  Size3 padding = 0, dilation = 1;
  bool ceil_mode = false;
};
class TENON_API MaxPool3d : public Module {
 public:
  explicit MaxPool3d(Size3 kernel_size, const MaxPool3dOptions& options = {})
      : kernel_(kernel_size), options_(options) {}
  Tensor forward(const Tensor& x) const;
  TENON_MODULE(MaxPool3d)

 private:
  Size3 kernel_;
  MaxPool3dOptions options_;
};

struct AvgPool3dOptions {
  std::optional<Size3> stride = {};  ///< unset: that of the kernel
  Size3 padding = 0;
  bool ceil_mode = false, count_include_pad = true;
  std::optional<int64_t> divisor_override = {};
};
class TENON_API AvgPool3d : public Module {
 public:
  explicit AvgPool3d(Size3 kernel_size, const AvgPool3dOptions& options = {})
      : kernel_(kernel_size), options_(options) {}
  Tensor forward(const Tensor& x) const;
  TENON_MODULE(AvgPool3d)

 private:
  Size3 kernel_;
  AvgPool3dOptions options_;
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

TENON_STATELESS_OF(AdaptiveAvgPool1d, int64_t, output_size, adaptive_avg_pool1d(x, {output_size}))
TENON_STATELESS_OF(AdaptiveMaxPool1d, int64_t, output_size,
                   std::get<0>(adaptive_max_pool1d(x, {output_size})))
TENON_STATELESS_OF(AdaptiveMaxPool2d, Size2, output_size,
                   std::get<0>(adaptive_max_pool2d(x, output_size.list())))
TENON_STATELESS_OF(AdaptiveMaxPool3d, Size3, output_size,
                   std::get<0>(adaptive_max_pool3d(x, output_size.list())))
TENON_STATELESS_OF(AdaptiveAvgPool3d, Size3, output_size,
                   adaptive_avg_pool3d(x, IntList(output_size.list())))
#undef TENON_STATELESS_OF

class TENON_API AdaptiveAvgPool2d : public Module {
 public:
  explicit AdaptiveAvgPool2d(Size2 output_size) : output_size_(output_size) {}
  Tensor forward(const Tensor& x) const;
  TENON_MODULE(AdaptiveAvgPool2d)

 private:
  Size2 output_size_;
};

}  // namespace tenon::nn
