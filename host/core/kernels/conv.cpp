// Convolutions as matrix products.
//
// Problem: y = W * columns(x), where the matrix of columns would be kernel_size times as large as
// x. Method: the output is cut into blocks of pixels. For each, 256 rows of columns at a time are
// copied straight into the panels that the tile kernels read, and multiplied with the weights,
// which were packed once for all blocks. A 1 x 1 kernel with stride 1 needs no columns: x is the
// right operand. One input channel a group goes to conv_depthwise.cpp. Threads take (image, group,
// pixels, output channels) blocks; output channels are cut only where there are too few of the
// others, since each such block copies its columns anew.
#include "core/kernels/conv.h"

#include "core/kernels/conv_columns.h"
#include "core/kernels/conv_ways.h"
#include "core/kernels/gemm.h"
#include "core/kernels/gemm_block.h"
#include "core/kernels/narrow.h"
#include "core/threads/thread_pool.h"

#include <algorithm>
#include <type_traits>

namespace tenon::kernels {

double conv_us(double multiply_adds) {
  static constexpr double rate[n_cpu_levels] = {12e3, 30e3, 60e3};
  return multiply_adds / rate[static_cast<int>(cpu_level())];
}

namespace {

template <class T>
void fill_bias(const ConvShape& s, const T* bias, T* y) {
  for (int64_t i = 0; i < s.batch * s.out_channels; ++i)
    std::fill_n(y + i * s.output_size(), s.output_size(), bias[i % s.out_channels]);
}

bool is_pointwise(const ConvShape& s) {
  return s.kernel_size() == 1 && s.input == s.output &&
         s.stride == std::array<int64_t, 3>{1, 1, 1} &&
         s.padding == std::array<int64_t, 3>{0, 0, 0};
}

template <class T>
void conv_pointwise(const ConvShape& s, const T* x, const T* weight, T* y, T beta) {
  const int64_t m = s.out_per_group(), k = s.in_per_group(), pixels = s.output_size();
  for (int64_t g = 0; g < s.groups; ++g)
    gemm(Gemm<T>{.m = m,
                 .n = pixels,
                 .k = k,
                 .a = weight + g * m * k,
                 .lda = k,
                 .b = x + g * k * pixels,
                 .ldb = pixels,
                 .beta = beta,
                 .c = y + g * m * pixels,
                 .ldc = pixels,
                 .batch = s.batch,
                 .stride_b = s.in_channels * pixels,
                 .stride_c = s.out_channels * pixels});
}

// Weights in panels: for each group, for each step along k, all rows.
template <class T>
void pack_weights(const ConvShape& s, const T* weight, int64_t padded_rows, T* packed) {
  const GemmLevel<T>& level = gemm_level<T>();
  const int64_t rows = s.out_per_group(), k = s.in_per_group() * s.kernel_size();
  const int64_t steps = (k + block_depth - 1) / block_depth;
  parallel_for(
      0, s.groups * steps, 1,
      [&](int64_t lo, int64_t hi) {
        for (int64_t i = lo; i < hi; ++i) {
          const int64_t g = i / steps, p = i % steps * block_depth;
          pack_rows(level, false, weight + g * rows * k + p, k, rows, std::min(block_depth, k - p),
                    packed + (g * k + p) * padded_rows);
        }
      },
      1e-3 * static_cast<double>(rows * std::min(k, block_depth)));
}

struct Block {
  int64_t image, group;
  int64_t pixel, n_pixels;
  int64_t channel, n_channels;  // output channels within the group
};

template <class T>
void conv_block(const ConvShape& s, const T* x, const T* packed, int64_t padded_rows, T* y,
                bool add, const Block& b) {
  const GemmLevel<T>& level = gemm_level<T>();
  const int64_t k = s.in_per_group() * s.kernel_size(), pixels = s.output_size();
  const int64_t depth = std::min(k, block_depth), width = level.tile_columns;
  const HostBlock scratch(static_cast<size_t>(round_up(b.n_pixels, width) * depth) * sizeof(T));
  T* const panels = scratch.as<T>();
  const int64_t first_channel = b.group * s.in_per_group();
  const Columns<T> columns(s, x + (b.image * s.in_channels + first_channel) * s.input_size(),
                           b.pixel, b.n_pixels);
  T* const out =
      y + (b.image * s.out_channels + b.group * s.out_per_group() + b.channel) * pixels + b.pixel;
  for (int64_t p = 0; p < k; p += depth) {
    const int64_t n = std::min(depth, k - p);
    columns.copy(p, n, width, panels);
    const T* left = packed + (b.group * k + p) * padded_rows + b.channel * n;
    for (int64_t i = 0; i < b.n_channels; i += block_rows)
      run_panels(level, std::min(block_rows, b.n_channels - i), b.n_pixels, n, left + i * n,
                 level.tile_rows * n, panels, width * n, T(1), add || p > 0 ? T(1) : T(0),
                 out + i * pixels, pixels);
  }
}

template <class T>
void conv_by_columns(const ConvShape& s, const T* x, const T* weight, T* y, bool add) {
  const GemmLevel<T>& level = gemm_level<T>();
  const int64_t k = s.in_per_group() * s.kernel_size(), rows = s.out_per_group();
  const int64_t padded_rows = round_up(rows, level.tile_rows), pixels = s.output_size();
  const HostBlock packed(static_cast<size_t>(s.groups * padded_rows * k) * sizeof(T));
  pack_weights(s, weight, padded_rows, packed.as<T>());

  const int64_t threads = in_parallel() ? 1 : num_threads(), images = s.batch * s.groups;
  const int64_t wanted = (2 * threads + images - 1) / images;  // blocks an image
  const int64_t most_pixels = std::clamp<int64_t>(
      round_up((pixels + wanted - 1) / wanted, level.tile_columns), 2 * level.tile_columns, 384);
  const int64_t pixel_blocks = (pixels + most_pixels - 1) / most_pixels;
  const int64_t channel_cuts = std::max<int64_t>(1, threads / (images * pixel_blocks));
  const int64_t most_channels = round_up((rows + channel_cuts - 1) / channel_cuts, level.tile_rows);
  const int64_t channel_blocks = (rows + most_channels - 1) / most_channels;
  const double us = conv_us(static_cast<double>(s.batch * s.out_channels * pixels * k));
  parallel_chunks(
      images * pixel_blocks * channel_blocks,
      [&](int64_t chunk, int) {
        const int64_t pixel = chunk / channel_blocks % pixel_blocks * most_pixels;
        const int64_t image = chunk / (channel_blocks * pixel_blocks);
        const int64_t channel = chunk % channel_blocks * most_channels;
        conv_block(s, x, packed.as<T>(), padded_rows, y, add,
                   {.image = image / s.groups,
                    .group = image % s.groups,
                    .pixel = pixel,
                    .n_pixels = std::min(most_pixels, pixels - pixel),
                    .channel = channel,
                    .n_channels = std::min(most_channels, rows - channel)});
      },
      us);
}

template <class T>
void conv_floating(const ConvShape& s, const T* x, const T* weight, const T* bias, T* y) {
  if (s.batch * s.out_channels * s.output_size() == 0) return;
  if (s.in_per_group() == 1) return conv_depthwise(s, x, weight, bias, y);
  const bool add = bias != nullptr;
  if (add) fill_bias(s, bias, y);
  if (s.in_per_group() * s.kernel_size() == 0) {  // sums of nothing
    if (!add) std::fill_n(y, s.batch * s.out_channels * s.output_size(), T(0));
    return;
  }
  if (is_pointwise(s))
    conv_pointwise(s, x, weight, y, add ? T(1) : T(0));
  else
    conv_by_columns(s, x, weight, y, add);
}

// 16-bit arrays as float arrays.
template <class T>
class Wide {
 public:
  Wide(const T* values, int64_t n) : block_(static_cast<size_t>(n) * sizeof(float)) {
    if (values != nullptr) widen(values, get(), n);
    given_ = values != nullptr;
  }
  float* get() const { return block_.template as<float>(); }
  const float* or_null() const { return given_ ? get() : nullptr; }

 private:
  HostBlock block_;
  bool given_;
};

}  // namespace

template <class T>
void conv(const ConvShape& s, const T* x, const T* weight, const T* bias, T* y) {
  if constexpr (!is_narrow<T>) {
    conv_floating(s, x, weight, bias, y);
  } else {
    const int64_t n = s.batch * s.out_channels * s.output_size();
    const Wide<T> wx(x, s.batch * s.in_channels * s.input_size()), wb(bias, s.out_channels);
    const Wide<T> ww(weight, s.out_channels * s.in_per_group() * s.kernel_size()), wy(nullptr, n);
    conv_floating<float>(s, wx.get(), ww.get(), wb.or_null(), wy.get());
    narrow(wy.get(), y, n);
  }
}

template <class T>
void conv_transposed(const ConvShape& s, const T* x, const T* weight, const T* bias, T* y) {
  if constexpr (!is_narrow<T>) {
    conv_transposed_by_columns(s, x, weight, bias, y);
  } else {
    const int64_t n = s.batch * s.out_channels * s.output_size();
    const Wide<T> wx(x, s.batch * s.in_channels * s.input_size()), wb(bias, s.out_channels);
    const Wide<T> ww(weight, s.in_channels * s.out_per_group() * s.kernel_size()), wy(nullptr, n);
    conv_transposed_by_columns<float>(s, wx.get(), ww.get(), wb.or_null(), wy.get());
    narrow(wy.get(), y, n);
  }
}

template <class T>
void conv_weight_grad(const ConvShape& s, const T* x, const T* grad_y, T* grad_weight) {
  if constexpr (!is_narrow<T>) {
    conv_weight_grad_by_columns(s, x, grad_y, grad_weight);
  } else {
    const int64_t n = s.out_channels * s.in_per_group() * s.kernel_size();
    const Wide<T> wx(x, s.batch * s.in_channels * s.input_size()), wg(nullptr, n);
    const Wide<T> wy(grad_y, s.batch * s.out_channels * s.output_size());
    conv_weight_grad_by_columns<float>(s, wx.get(), wy.get(), wg.get());
    narrow(wg.get(), grad_weight, n);
  }
}

#define TENON_CONV(T)                                                                \
  template void conv(const ConvShape&, const T*, const T*, const T*, T*);            \
  template void conv_transposed(const ConvShape&, const T*, const T*, const T*, T*); \
  template void conv_weight_grad(const ConvShape&, const T*, const T*, T*);

TENON_CONV(float)
TENON_CONV(double)
TENON_CONV(Half)
TENON_CONV(BFloat16)

}  // namespace tenon::kernels
