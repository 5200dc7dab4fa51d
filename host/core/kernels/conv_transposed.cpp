// The transposed convolution, and the derivative of a convolution by its weight.
//
// Transposed: columns = W^T x for a few output channels at a time (a matrix product), then each row
// of columns is added to the output plane where it belongs. A chunk owns its planes, so no two
// threads add to one place.
// Derivative by the weight: grad_y times the transposed columns of x, summed over pixels and images
// in a fixed order. A chunk owns some rows of columns, hence columns of the result.
#include "core/kernels/conv_columns.h"
#include "core/kernels/conv_ways.h"
#include "core/kernels/gemm.h"
#include "core/tensor/allocator.h"
#include "core/threads/thread_pool.h"

#include <algorithm>

namespace tenon::kernels {
namespace {

struct Range {
  int64_t first, last;
};

// The i in [0, n) with 0 <= i * step + offset < end.
Range inside(int64_t n, int64_t step, int64_t offset, int64_t end) {
  const int64_t first = offset >= 0 ? 0 : (-offset + step - 1) / step;
  const int64_t last = end <= offset ? 0 : (end - offset + step - 1) / step;
  return {std::min(first, n), std::clamp(last, std::min(first, n), n)};
}

// Adds one row of columns (all input pixels, for kernel element kz, ky, kx) to an output plane.
template <class T>
void add_columns(const ConvShape& s, std::array<int64_t, 3> k, const T* columns, T* plane) {
  int64_t offset[3];
  Range range[3];
  for (size_t d = 0; d < 3; ++d) {
    offset[d] = k[d] * s.dilation[d] - s.padding[d];
    range[d] = inside(s.input[d], s.stride[d], offset[d], s.output[d]);
  }
  const int64_t step = s.stride[2];
  for (int64_t z = range[0].first; z < range[0].last; ++z)
    for (int64_t y = range[1].first; y < range[1].last; ++y) {
      const int64_t row = (z * s.stride[0] + offset[0]) * s.output[1] + y * s.stride[1] + offset[1];
      T* const to = plane + row * s.output[2] + offset[2];
      const T* const from = columns + (z * s.input[1] + y) * s.input[2];
      if (step == 1) {
        for (int64_t x = range[2].first; x < range[2].last; ++x) to[x] += from[x];
      } else {
        for (int64_t x = range[2].first; x < range[2].last; ++x) to[x * step] += from[x];
      }
    }
}

template <class T>
void add_all_columns(const ConvShape& s, const T* columns, T* plane) {
  for (int64_t kz = 0; kz < s.kernel[0]; ++kz)
    for (int64_t ky = 0; ky < s.kernel[1]; ++ky)
      for (int64_t kx = 0; kx < s.kernel[2]; ++kx, columns += s.input_size())
        add_columns(s, {kz, ky, kx}, columns, plane);
}

}  // namespace

template <class T>
void conv_transposed_by_columns(const ConvShape& s, const T* x, const T* weight, const T* bias,
                                T* y) {
  const int64_t m = s.out_per_group(), k = s.in_per_group(), pixels = s.input_size();
  const int64_t kernel = s.kernel_size(), outputs = s.output_size();
  if (s.batch * s.out_channels * outputs == 0) return;
  // Columns of a chunk fit into 1 MB of floats; a fixed number, so that results do not depend on
  // threads.
  const int64_t per_chunk = std::clamp<int64_t>(
      (int64_t{1} << 18) / std::max<int64_t>(1, kernel * pixels), 1, std::max<int64_t>(1, m / 4));
  const int64_t cuts = (m + per_chunk - 1) / per_chunk;
  parallel_chunks(
      s.batch * s.groups * cuts,
      [&](int64_t chunk, int) {
        const int64_t first = chunk % cuts * per_chunk, n = std::min(per_chunk, m - first);
        const int64_t group = chunk / cuts % s.groups, image = chunk / (cuts * s.groups);
        const HostBlock columns(static_cast<size_t>(n * kernel * pixels) * sizeof(T));
        gemm(Gemm<T>{.trans_a = Trans::yes,
                     .m = n * kernel,
                     .n = pixels,
                     .k = k,
                     .a = weight + (group * k * m + first) * kernel,
                     .lda = m * kernel,
                     .b = x + (image * s.in_channels + group * k) * pixels,
                     .ldb = pixels,
                     .c = columns.as<T>(),
                     .ldc = pixels});
        for (int64_t o = 0; o < n; ++o) {
          const int64_t channel = group * m + first + o;
          T* const plane = y + (image * s.out_channels + channel) * outputs;
          std::fill_n(plane, outputs, bias ? bias[channel] : T(0));
          add_all_columns(s, columns.as<T>() + o * kernel * pixels, plane);
        }
      },
      conv_us(static_cast<double>(s.batch * s.in_channels * pixels * m * kernel)));
}

template <class T>
void conv_weight_grad_by_columns(const ConvShape& s, const T* x, const T* grad_y, T* grad_weight) {
  constexpr int64_t most_rows = 96, most_pixels = 512;
  const int64_t m = s.out_per_group(), pixels = s.output_size();
  const int64_t rows = s.in_per_group() * s.kernel_size();
  if (s.out_channels * rows == 0) return;
  const int64_t cuts = (rows + most_rows - 1) / most_rows;
  const auto one_chunk = [&](int64_t chunk) {
    const int64_t group = chunk / cuts, first = chunk % cuts * most_rows;
    const int64_t n = std::min(most_rows, rows - first);
    const HostBlock scratch(static_cast<size_t>(n * most_pixels) * sizeof(T));
    T* const out = grad_weight + group * m * rows + first;
    for (int64_t i = 0; i < m; ++i) std::fill_n(out + i * rows, n, T(0));
    for (int64_t image = 0; image < s.batch; ++image)
      for (int64_t p = 0; p < pixels; p += most_pixels) {
        const int64_t k = std::min(most_pixels, pixels - p);
        const int64_t channel = image * s.in_channels + group * s.in_per_group();
        Columns<T>(s, x + channel * s.input_size(), p, k)
            .copy(first, n, most_pixels, scratch.as<T>());
        gemm(Gemm<T>{.trans_b = Trans::yes,
                     .m = m,
                     .n = n,
                     .k = k,
                     .a = grad_y + (image * s.out_channels + group * m) * pixels + p,
                     .lda = pixels,
                     .b = scratch.as<T>(),
                     .ldb = most_pixels,
                     .beta = 1,
                     .c = out,
                     .ldc = rows});
      }
  };
  parallel_chunks(
      s.groups * cuts, [&](int64_t chunk, int) { one_chunk(chunk); },
      conv_us(static_cast<double>(s.batch * s.out_channels * pixels * rows)));
}

#define TENON_CONV(T)                                                                           \
  template void conv_transposed_by_columns(const ConvShape&, const T*, const T*, const T*, T*); \
  template void conv_weight_grad_by_columns(const ConvShape&, const T*, const T*, T*);

TENON_CONV(float)
TENON_CONV(double)

}  // namespace tenon::kernels
