// The windows of a convolution as rows of a matrix, channels-last, in f32.
//
// Problem: few pixels and many channels (the last layers of a network) make the weights the heavy
// part of a convolution; a product reads them once and in order. Method: each pixel's window is
// copied into a row, zeros where it reaches over the border; the convolution is a product of that
// matrix with the weights. Cost: one copy of `kernel` times the source, some percent of the product
// where there are hundreds of output channels.
#pragma once

#include "product.h"

namespace microkernel {

struct Windows {
  int64_t images, channels, height, width, out_height, out_width;
  int64_t kernel[2], stride[2], padding[2], dilation[2];
  int64_t source_image, source_row, source_pixel;  ///< in elements; channels are dense

  int64_t rows() const { return images * out_height * out_width; }
  int64_t columns() const { return kernel[0] * kernel[1] * channels; }
  /// Rows [begin, end) of the matrix.
  void gather(const float* source, int64_t begin, int64_t end, float* matrix) const;
  /// Panels [begin, end) of weights [n, channels, kernel[0], kernel[1]] at these strides, for
  /// Panels{columns(), n}.
  void pack(const float* weights, const int64_t (&strides)[4], int64_t n, int64_t begin,
            int64_t end, float* packed) const;
};

}  // namespace microkernel
