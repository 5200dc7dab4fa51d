// SPDX-License-Identifier: Apache-2.0
// Convolutions of volumes, and transposed ones, with PyTorch's names, defaults and initial values.
// Conv1d and Conv2d: <tenon/nn/layers.h>.
#pragma once

#include <tenon/nn/layers.h>

namespace tenon::nn {

/// Depth, height and width; one number is all three.
struct Size3 {
  int64_t depth = 0, height = 0, width = 0;
  constexpr Size3(int64_t all) : depth(all), height(all), width(all) {}  // NOLINT: likewise
  constexpr Size3(int64_t d, int64_t h, int64_t w) : depth(d), height(h), width(w) {}
  std::array<int64_t, 3> list() const { return {depth, height, width}; }
};

struct Conv3dOptions {
  Size3 stride = 1, padding = 0, dilation = 1;
  int64_t groups = 1;
  bool bias = true;
};
class TENON_API Conv3d : public Module {
 public:
  Conv3d(int64_t in_channels, int64_t out_channels, Size3 kernel_size,
         const Conv3dOptions& options = {});
  void reset_parameters();
  Tensor forward(const Tensor& x) const;

  Parameter weight;  ///< [out, in / groups, depth, height, width]
  Parameter bias;
  TENON_MODULE(Conv3d, weight, bias)

 private:
  Conv3dOptions options_;
};

/// `output_padding` is added to one side of the result, whose size the stride leaves open.
template <class Size>
struct ConvTransposeOptions {
  Size stride = 1, padding = 0, output_padding = 0;
  int64_t groups = 1;
  bool bias = true;
  Size dilation = 1;
};
/// The gradient of a convolution with respect to its input, as a layer.
class TENON_API ConvTranspose : public Module {
 public:
  void reset_parameters();
  Tensor forward(const Tensor& x) const;

  Parameter weight;  ///< [in, out / groups, kernel...]
  Parameter bias;
  TENON_MODULE(ConvTranspose, weight, bias)

 protected:
  struct Sizes {
    std::vector<int64_t> stride, padding, output_padding, dilation;
  };
  ConvTranspose(int64_t in_channels, int64_t out_channels, IntList kernel_size, Sizes sizes,
                int64_t groups, bool has_bias);

 private:
  Sizes sizes_;
  int64_t groups_;
};
class TENON_API ConvTranspose1d : public ConvTranspose {
 public:
  ConvTranspose1d(int64_t in_channels, int64_t out_channels, int64_t kernel_size,
                  const ConvTransposeOptions<int64_t>& options = {});
  std::string_view type_name() const override { return "ConvTranspose1d"; }
};
class TENON_API ConvTranspose2d : public ConvTranspose {
 public:
  ConvTranspose2d(int64_t in_channels, int64_t out_channels, Size2 kernel_size,
                  const ConvTransposeOptions<Size2>& options = {});
  std::string_view type_name() const override { return "ConvTranspose2d"; }
};
class TENON_API ConvTranspose3d : public ConvTranspose {
 public:
  ConvTranspose3d(int64_t in_channels, int64_t out_channels, Size3 kernel_size,
                  const ConvTransposeOptions<Size3>& options = {});
  std::string_view type_name() const override { return "ConvTranspose3d"; }
};

}  // namespace tenon::nn
