#include "windows.h"

#include <algorithm>

namespace microkernel {

void Windows::gather(const float* source, int64_t begin, int64_t end, float* matrix) const {
  for (int64_t r = begin; r < end; ++r) {
    int64_t image = r / (out_height * out_width), pixel = r % (out_height * out_width);
    int64_t y = pixel / out_width * stride[0] - padding[0];
    int64_t x = pixel % out_width * stride[1] - padding[1];
    float* to = matrix + r * columns();
    for (int64_t i = 0; i < kernel[0]; ++i)
      for (int64_t j = 0; j < kernel[1]; ++j, to += channels) {
        int64_t row = y + i * dilation[0], column = x + j * dilation[1];
        bool is_inside = row >= 0 && row < height && column >= 0 && column < width;
        if (is_inside)
          std::copy_n(source + image * source_image + row * source_row + column * source_pixel,
                      channels, to);
        else
          std::fill_n(to, channels, 0.0f);
      }
  }
}

void Windows::pack(const float* weights, const int64_t (&strides)[4], int64_t n, int64_t begin,
                   int64_t end, float* packed) const {
  Panels panels{columns(), n};
  for (int64_t i = 0; i < kernel[0]; ++i)
    for (int64_t j = 0; j < kernel[1]; ++j)
      panels.pack_rows((i * kernel[1] + j) * channels, channels,
                       weights + i * strides[2] + j * strides[3], strides[1], strides[0], begin,
                       end, packed);
}

}  // namespace microkernel
