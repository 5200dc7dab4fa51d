// The columns of a convolution: for a pixel of the output, the input values that its sum takes.
#pragma once

#include "core/kernels/conv.h"

#include <algorithm>
#include <cstring>
#include <vector>

namespace tenon::kernels {

/// Copies blocks of the matrix of columns (in_per_group * kernel rows, one column an output pixel)
/// of one image and group. Made for a range of pixels, then asked for ranges of rows.
template <class T>
class Columns {
 public:
  /// `x` is the first channel of the group.
  Columns(const ConvShape& shape, const T* x, int64_t first_pixel, int64_t n_pixels)
      : shape_(shape), x_(x) {
    const int64_t width = shape.output[2];
    for (int64_t q = 0; q < n_pixels;) {
      const int64_t pixel = first_pixel + q, row = pixel / width, from = pixel % width;
      const int64_t n = std::min(width - from, n_pixels - q);
      segments_.push_back({row / shape.output[1], row % shape.output[1], from, n, q});
      q += n;
    }
  }

  /// Row first + r of pixel q goes to panels[(q / width * rows + r) * width + q % width].
  void copy(int64_t first, int64_t rows, int64_t width, T* panels) const {
    for (int64_t r = 0; r < rows; ++r) copy_row(first + r, rows * width, width, panels + r * width);
  }

 private:
  struct Segment {
    int64_t z, y, x, n;  // n output pixels of one row from x on
    int64_t at;          // place of the first within the range
  };

  void copy_row(int64_t row, int64_t panel, int64_t width, T* out) const {
    const auto& s = shape_;
    const int64_t kx = row % s.kernel[2], ky = row / s.kernel[2] % s.kernel[1];
    const int64_t kz = row / (s.kernel[2] * s.kernel[1]) % s.kernel[0];
    const T* channel = x_ + row / s.kernel_size() * s.input_size();
    for (const Segment& segment : segments_) {
      const int64_t z = segment.z * s.stride[0] - s.padding[0] + kz * s.dilation[0];
      const int64_t y = segment.y * s.stride[1] - s.padding[1] + ky * s.dilation[1];
      const bool inside = z >= 0 && z < s.input[0] && y >= 0 && y < s.input[1];
      const T* line = inside ? channel + (z * s.input[1] + y) * s.input[2] : nullptr;
      const int64_t x = segment.x * s.stride[2] - s.padding[2] + kx * s.dilation[2];
      copy_segment(segment, line, x, panel, width, out);
    }
  }

  // The segment's values are line[x], line[x + stride] and so on, 0 outside of the line.
  void copy_segment(const Segment& segment, const T* line, int64_t x, int64_t panel, int64_t width,
                    T* out) const {
    for (int64_t done = 0; done < segment.n;) {
      const int64_t q = segment.at + done, within = q % width;
      const int64_t n = std::min(width - within, segment.n - done);
      T* const to = out + q / width * panel + within;
      if (line == nullptr)
        std::memset(to, 0, static_cast<size_t>(n) * sizeof(T));
      else
        copy_line(line, x + done * shape_.stride[2], n, to);
      done += n;
    }
  }

  void copy_line(const T* line, int64_t x, int64_t n, T* to) const {
    const int64_t step = shape_.stride[2], end = shape_.input[2];
    int64_t i = 0;
    for (; i < n && x < 0; ++i, x += step) to[i] = 0;
    const int64_t whole = x < end ? std::min(n - i, (end - x + step - 1) / step) : 0;
    if (step == 1) {
      std::memcpy(to + i, line + x, static_cast<size_t>(whole) * sizeof(T));
    } else {
      for (int64_t j = 0; j < whole; ++j) to[i + j] = line[x + j * step];
    }
    for (i += whole; i < n; ++i) to[i] = 0;
  }

  const ConvShape& shape_;
  const T* x_;
  std::vector<Segment> segments_;
};

}  // namespace tenon::kernels
