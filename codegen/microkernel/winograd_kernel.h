// 3 x 3 convolutions by Winograd's F(4x4, 3x3), channels-last.
//
// Problem: a 3 x 3 convolution multiplies each input by nine weights for each output channel.
//
// Method: 4 x 4 results come from a tile of 6 x 6 inputs. Both are transformed (matrices below, by
// channel) so that the convolution is 36 products of single numbers in place of 144; over all
// channels that makes 36 matrix products [tiles, channels] x [channels, out_channels]. A block of
// tiles goes through transformation, products and transformation back while it is in the
// second-level cache. Weights are transformed and packed once.
//
// Cost: a quarter of the multiplications, and some 10 % for either transformation at 64 channels.
// Error: the transformations cancel; by how much depends on the points where the polynomials behind
// them are evaluated. With 0, 2/3, -2/3, 3/2, -3/2 and infinity the error is 1.7 times that of a
// direct sum over 64 channels; with 1 and 2 in place of 2/3 and 3/2, as usual, it would be 4 times.
// Source: Lavin and Gray, Fast Algorithms for Convolutional Neural Networks, 2016; that the points
// count: Barabasz et al., Error Analysis and Improving the Accuracy of Winograd Convolution, 2020.
#pragma once

#include "product_kernel.h"

namespace microkernel::MICROKERNEL_LEVEL {

// The points beside 0 and infinity: p, -p, 1/p and -1/p, and their powers.
static constexpr float p1 = 2.0f / 3, p2 = 4.0f / 9, p3 = 8.0f / 27;
static constexpr float r1 = 3.0f / 2, r2 = 9.0f / 4, r3 = 27.0f / 8;

/// One line of an input tile: B^T d.
static inline void transform_in(const Vector (&d)[6], Vector (&out)[6]) {
  Vector even = d[4] - r2 * d[2], odd = p1 * (d[3] - r2 * d[1]);
  Vector even2 = d[4] - p2 * d[2], odd2 = r1 * (d[3] - p2 * d[1]);
  out[0] = d[0] - (p2 + r2) * d[2] + d[4];
  out[1] = even + odd;
  out[2] = even - odd;
  out[3] = even2 + odd2;
  out[4] = even2 - odd2;
  out[5] = d[1] - (p2 + r2) * d[3] + d[5];
}

/// One line of a tile of results: A^T m.
static inline void transform_out(const Vector (&m)[6], Vector (&out)[4]) {
  Vector plus = m[1] + m[2], minus = m[1] - m[2], plus2 = m[3] + m[4], minus2 = m[3] - m[4];
  out[0] = m[0] + plus + plus2;
  out[1] = p1 * minus + r1 * minus2;
  out[2] = p2 * plus + r2 * plus2;
  out[3] = p3 * minus + r3 * minus2 + m[5];
}

/// Tile (y, x) of the source as row `tile` of 36 matrices.
static void bring_tile(const WinogradBlock& b, int64_t tile, int64_t y, int64_t x,
                       float* matrices) {
  int64_t top = 4 * y - b.padding[0], left = 4 * x - b.padding[1];
  bool is_inside = top >= 0 && left >= 0 && top + 6 <= b.height && left + 6 <= b.width;
  const float* corner = b.source + top * b.source_row + left * b.source_pixel;
  for (int64_t c = 0; c < b.channels; c += lane_count) {
    int64_t n = b.channels - c;
    Vector lines[6][6];
    for (int j = 0; j < 6; ++j) {
      Vector d[6], line[6];
      for (int i = 0; i < 6; ++i) {
        bool is_there = is_inside ||
                        (top + i >= 0 && top + i < b.height && left + j >= 0 && left + j < b.width);
        d[i] = is_there ? load(corner + i * b.source_row + j * b.source_pixel + c, n) : Vector{};
      }
      transform_in(d, line);
      for (int i = 0; i < 6; ++i) lines[i][j] = line[i];
    }
    float* to = matrices + tile * b.channels + c;
    for (int i = 0; i < 6; ++i) {
      Vector line[6];
      transform_in(lines[i], line);
      for (int j = 0; j < 6; ++j) store(to + (6 * i + j) * b.tiles * b.channels, line[j], n);
    }
  }
}

/// Row `tile` of the 36 products as tile (y, x) of the result.
static void give_tile(const WinogradBlock& b, int64_t tile, int64_t y, int64_t x,
                      const float* products, int64_t column, int64_t column_end) {
  int64_t rows = b.out_height - 4 * y, columns = b.out_width - 4 * x;
  if (rows > 4) rows = 4;
  if (columns > 4) columns = 4;
  for (int64_t o = column; o < column_end; o += lane_count) {
    int64_t n = column_end - o;
    const float* from = products + tile * b.out_channels + o;
    Vector lines[4][6];
    for (int j = 0; j < 6; ++j) {
      Vector m[6], line[4];
      for (int i = 0; i < 6; ++i) m[i] = load(from + (6 * i + j) * b.tiles * b.out_channels, n);
      transform_out(m, line);
      for (int i = 0; i < 4; ++i) lines[i][j] = line[i];
    }
    Vector bias = b.bias ? load(b.bias + o, n) : Vector{};
    for (int64_t i = 0; i < rows; ++i) {
      Vector line[4];
      transform_out(lines[i], line);
      for (int64_t j = 0; j < columns; ++j) {
        int64_t at = b.place + (4 * y + i) * b.result_row + (4 * x + j) * b.result_pixel + o;
        Vector v = line[j] + bias;
        for (const Finish* f = b.finish; f < b.finish + b.n_finish; ++f) {
          bool adds = f->kind == Finish::Kind::add;
          Vector operand = adds ? load(static_cast<const float*>(f->operand) + at, n) : Vector{};
          v = finished<float>(v, f->kind, operand, static_cast<float>(f->factor));
        }
        store(b.result + at, v, n);
      }
    }
  }
}

static void convolve_winograd(const WinogradBlock& b) {
  ProductBlock whole{};
  whole.n = b.out_channels, whole.panels = b.panels;
  int64_t column = whole.column(b.panel, lane_count);
  int64_t column_end = whole.column(b.panel_end, lane_count);
  float* products = b.scratch + 36 * b.tiles * b.channels;
  for (int64_t t = 0; t < b.tiles; ++t)
    bring_tile(b, t, (b.first + t) / b.tiles_across, (b.first + t) % b.tiles_across, b.scratch);
  for (int64_t p = 0; p < 36; ++p)
    multiply<Plain<float>>(
        {0, b.tiles, b.channels, b.out_channels, b.panel, b.panel_end, b.panels,
         b.scratch + p * b.tiles * b.channels, b.channels, 1, b.packed + p * b.packed_size, 0,
         nullptr, products + p * b.tiles * b.out_channels, false, 0, b.out_channels, nullptr, 0});
  for (int64_t t = 0; t < b.tiles; ++t)
    give_tile(b, t, (b.first + t) / b.tiles_across, (b.first + t) % b.tiles_across, products,
              column, column_end);
}

}  // namespace microkernel::MICROKERNEL_LEVEL
