// Packing of transformed weights, and the cut of a convolution into blocks of tiles.
#include "winograd.h"

#include "product.h"
#include "winograd_parts.h"

#include <algorithm>
#include <vector>

namespace microkernel {

namespace {

/// Three weights at the points of winograd_kernel.h, with the factors of the way back.
void transform_weights(const double (&g)[3], double (&out)[6]) {
  out[0] = g[0];
  out[1] = g[2];
  out[2] = (g[0] + g[1] + g[2]) / 4;
  out[3] = (g[0] - g[1] + g[2]) / 4;
  out[4] = (g[0] - g[2]) / 2;
  out[5] = g[1] / 2;
}

/// The kernel of one input and one output channel at the points.
void transform_kernel(const float* weights, const int64_t (&strides)[4], double (&out)[6][6]) {
  double columns[6][3];
  for (int j = 0; j < 3; ++j) {
    double g[3], column[6];
    for (int i = 0; i < 3; ++i) g[i] = weights[i * strides[2] + j * strides[3]];
    transform_weights(g, column);
    for (int i = 0; i < 6; ++i) columns[i][j] = column[i];
  }
  for (int i = 0; i < 6; ++i) transform_weights(columns[i], out[i]);
}

}  // namespace

bool WinogradConvolution::is_worth_it() const {
  constexpr int64_t few_channels = 32, few_rows = 14;
  // The transformed weights are five times as many, and mostly come from memory.
  constexpr int64_t many_weights = 4 << 20;
  return channels >= few_channels && out_channels >= few_channels && out_height >= few_rows &&
         out_width >= few_rows && winograd_parts * channels * out_channels <= many_weights;
}

int64_t WinogradConvolution::packed_size() const {
  return winograd_parts * Panels{channels, out_channels}.size();
}

int64_t WinogradConvolution::pack_parts() const { return Panels{channels, out_channels}.count(); }

void WinogradConvolution::pack(int64_t part, const float* weights, const int64_t (&strides)[4],
                               float* packed) const {
  Panels panels{channels, out_channels};
  int64_t lanes = kernels().f32.lanes, size = panels.size();
  int64_t first = panels.column(part), columns = panels.column(part + 1) - first;
  int64_t width = (columns + lanes - 1) / lanes * lanes;
  std::vector<float> row(
      static_cast<size_t>(winograd_parts * width));  // of one channel: a panel's row of each matrix
  for (int64_t c = 0; c < channels; ++c) {
    for (int64_t j = 0; j < columns; ++j) {
      double values[6][6];
      transform_kernel(weights + (first + j) * strides[0] + c * strides[1], strides, values);
      split_into_parts<double>(values, [&](int part, double v) {  // rounded once, here
        row[static_cast<size_t>(part * width + j)] = static_cast<float>(factor_of_part(part) * v);
      });
    }
    for (int64_t p = 0; p < winograd_parts; ++p)
      std::copy_n(row.data() + p * width, width, packed + p * size + first * channels + c * width);
  }
}

// Blocks are larger than the second-level cache: each reads all weights, which are more.
WinogradConvolution::Cut WinogradConvolution::cut(int64_t threads) const {
  constexpr int64_t block_floats = 640 << 10, fewest_tiles = 12;
  auto divide_up = [](int64_t n, int64_t by) { return (n + by - 1) / by; };
  int64_t fitting = block_floats / (winograd_parts * (channels + out_channels));
  Cut out{std::clamp(fitting, std::min(fewest_tiles, tiles()), tiles()), 1, 0};
  int64_t blocks = divide_up(tiles(), out.tiles);
  if (blocks * images < 2 * threads) {
    // Few blocks: threads share them by output channels first, so that each reads its weights only.
    out.channels = std::min(pack_parts(), threads);
    int64_t wanted = divide_up(threads, images * out.channels);
    blocks = std::max(blocks, std::min(wanted, divide_up(tiles(), fewest_tiles)));
  } else {  // as many for each
    blocks = divide_up(blocks * images, threads) * threads / images;
  }
  out.tiles = divide_up(tiles(), blocks);
  out.chunks = divide_up(tiles(), out.tiles) * images * out.channels;
  return out;
}

int64_t WinogradConvolution::scratch_size(const Cut& cut) const {
  return winograd_parts *
         (winograd_step(cut.tiles * channels) + winograd_step(cut.tiles * out_channels));
}

void WinogradConvolution::run(const Cut& cut, int64_t chunk, const Operands& operands,
                              float* scratch) const {
  int64_t blocks = (tiles() + cut.tiles - 1) / cut.tiles, panels = pack_parts();
  int64_t part = chunk % cut.channels, block = chunk / cut.channels % blocks;
  int64_t image = chunk / cut.channels / blocks;
  int64_t first = block * cut.tiles;
  kernels().convolve_winograd({first,
                               std::min(cut.tiles, tiles() - first),
                               tiles_across(),
                               channels,
                               height,
                               width,
                               out_channels,
                               out_height,
                               out_width,
                               {padding[0], padding[1]},
                               panels * part / cut.channels,
                               panels * (part + 1) / cut.channels,
                               panels,
                               operands.source + image * source_image,
                               source_row,
                               source_pixel,
                               operands.packed,
                               Panels{channels, out_channels}.size(),
                               operands.bias,
                               operands.result,
                               image * result_image,
                               result_row,
                               result_pixel,
                               operands.finish.data(),
                               operands.finish.size(),
                               scratch});
}

}  // namespace microkernel
