// Convolutions in one to three dimensions, on contiguous arrays.
#pragma once

#include <tenon/half.h>

#include <array>
#include <cstdint>

namespace tenon::kernels {

/// Sizes of a convolution. Spatial arrays are depth, height, width: one dimension is 1, 1, width,
/// with kernel 1, stride 1, padding 0, dilation 1 in front.
struct ConvShape {
  int64_t batch = 1;
  int64_t in_channels = 1, out_channels = 1, groups = 1;
  std::array<int64_t, 3> input{1, 1, 1};
  std::array<int64_t, 3> kernel{1, 1, 1};
  std::array<int64_t, 3> stride{1, 1, 1};
  std::array<int64_t, 3> padding{0, 0, 0};
  std::array<int64_t, 3> dilation{1, 1, 1};
  std::array<int64_t, 3> output{1, 1, 1};

  int64_t in_per_group() const { return in_channels / groups; }
  int64_t out_per_group() const { return out_channels / groups; }
  int64_t input_size() const { return input[0] * input[1] * input[2]; }
  int64_t kernel_size() const { return kernel[0] * kernel[1] * kernel[2]; }
  int64_t output_size() const { return output[0] * output[1] * output[2]; }
};

// For all of them: groups divides both channel counts, sizes fit each other as above, arrays do not
// overlap, T is float, double, Half or BFloat16 (converted to float arrays as a whole). They run on
// the threads of the pool, whose number changes no bit of a result.

/// The same, or the transposed convolution, of integers: sums wrap around. On one thread.
void conv_integers(const ConvShape& shape, bool transposed, const int64_t* x, const int64_t* weight,
                   const int64_t* bias, int64_t* y);

/// y[batch, out_channels, output] = x[batch, in_channels, input] convolved with
/// weight[out_channels, in_per_group, kernel], plus bias[out_channels], which may be null.
template <class T>
void conv(const ConvShape& shape, const T* x, const T* weight, const T* bias, T* y);

/// The transposed convolution, which is also the derivative of conv by its input:
/// y[batch, out_channels, output] from x[batch, in_channels, input] and
/// weight[in_channels, out_per_group, kernel]; x(i) is added to y(i stride - padding + k dilation).
template <class T>
void conv_transposed(const ConvShape& shape, const T* x, const T* weight, const T* bias, T* y);

/// The derivative of conv by its weight: grad_weight[out_channels, in_per_group, kernel] from x and
/// the derivative by y.
template <class T>
void conv_weight_grad(const ConvShape& shape, const T* x, const T* grad_y, T* grad_weight);

}  // namespace tenon::kernels
