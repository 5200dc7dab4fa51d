// Convolutions of volumes, and transposed ones.
#include "nn/dense.h"

#include <tenon/nn/convolution.h>
#include <tenon/ops/create.h>
#include <tenon/ops/nn.h>

#include <algorithm>

namespace tenon::nn {
namespace {

template <size_t n>
std::vector<int64_t> vector_of(const std::array<int64_t, n>& list) {
  return {list.begin(), list.end()};
}

}  // namespace

Conv3d::Conv3d(int64_t in_channels, int64_t out_channels, Size3 kernel_size,
               const Conv3dOptions& options)
    : options_(options) {
  require_channels("Conv3d", in_channels, out_channels, options.groups);
  auto kernel = kernel_size.list();
  require_positive("Conv3d", "kernel_size", *std::ranges::min_element(kernel));
  weight = Parameter(
      empty({out_channels, in_channels / options.groups, kernel[0], kernel[1], kernel[2]}));
  if (options.bias) bias = Parameter(empty({out_channels}));
  reset_parameters();
}

void Conv3d::reset_parameters() { reset_dense(weight, bias); }

Tensor Conv3d::forward(const Tensor& x) const {
  auto stride = options_.stride.list(), padding = options_.padding.list(),
       dilation = options_.dilation.list();
  return conv3d(x, weight, bias, IntList(stride), IntList(padding), IntList(dilation),
                options_.groups);
}

ConvTranspose::ConvTranspose(int64_t in_channels, int64_t out_channels, IntList kernel_size,
                             Sizes sizes, int64_t groups, bool has_bias)
    : sizes_(std::move(sizes)), groups_(groups) {
  require_channels("ConvTranspose", in_channels, out_channels, groups);
  require_positive("ConvTranspose", "kernel_size", *std::ranges::min_element(kernel_size));
  std::vector<int64_t> shape{in_channels, out_channels / groups};
  shape.insert(shape.end(), kernel_size.begin(), kernel_size.end());
  weight = Parameter(empty(IntList(shape)));
  if (has_bias) bias = Parameter(empty({out_channels}));
  reset_parameters();
}

void ConvTranspose::reset_parameters() { reset_dense(weight, bias); }

Tensor ConvTranspose::forward(const Tensor& x) const {
  auto op = sizes_.stride.size() == 1   ? &conv_transpose1d
            : sizes_.stride.size() == 2 ? &conv_transpose2d
                                        : &conv_transpose3d;
  return op(x, weight, bias, IntList(sizes_.stride), IntList(sizes_.padding),
            IntList(sizes_.output_padding), groups_, IntList(sizes_.dilation));
}

ConvTranspose1d::ConvTranspose1d(int64_t in_channels, int64_t out_channels, int64_t kernel_size,
                                 const ConvTransposeOptions<int64_t>& options)
    : ConvTranspose(
          in_channels, out_channels, IntList(kernel_size),
          {{options.stride}, {options.padding}, {options.output_padding}, {options.dilation}},
          options.groups, options.bias) {}

ConvTranspose2d::ConvTranspose2d(int64_t in_channels, int64_t out_channels, Size2 kernel_size,
                                 const ConvTransposeOptions<Size2>& options)
    : ConvTranspose(in_channels, out_channels, IntList(kernel_size.list()),
                    {vector_of(options.stride.list()), vector_of(options.padding.list()),
                     vector_of(options.output_padding.list()), vector_of(options.dilation.list())},
                    options.groups, options.bias) {}

ConvTranspose3d::ConvTranspose3d(int64_t in_channels, int64_t out_channels, Size3 kernel_size,
                                 const ConvTransposeOptions<Size3>& options)
    : ConvTranspose(in_channels, out_channels, IntList(kernel_size.list()),
                    {vector_of(options.stride.list()), vector_of(options.padding.list()),
                     vector_of(options.output_padding.list()), vector_of(options.dilation.list())},
                    options.groups, options.bias) {}

}  // namespace tenon::nn
