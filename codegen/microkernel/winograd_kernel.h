// 3 x 3 convolutions by Winograd's F(4x4, 3x3) with a complex point, channels-last.
//
// Problem: a 3 x 3 convolution multiplies each input by nine weights for each output channel.
//
// Method: 4 x 4 results come from a tile of 6 x 6 inputs. Both are transformed (by channel) so that
// the convolution is 46 products of single numbers in place of 144; over all channels that makes 46
// matrix products [tiles, channels] x [channels, out_channels]. A block of tiles goes through
// transformation, products and transformation back while it is in the second-level cache. Weights
// are transformed and packed once.
//
// A line of a tile and one of the kernel are polynomials whose product is known by its values at
// six points: 0, infinity, 1, -1, i and -i. The last two are conjugates: one complex product. All
// points have the absolute value 1 (or are ends), so that the transformations of inputs and results
// are additions and cancel little.
//
// Cost: a third of the multiplications, and some 10 % for either transformation at 64 channels.
// Error: 0.6 times that of a direct sum over 64 channels. Six real points would need 36 products,
// with an error of at least 1.8 times the direct sum's (at 0, 2/3, -2/3, 3/2, -3/2 and infinity).
// Source: Lavin and Gray, Fast Algorithms for Convolutional Neural Networks, 2016; complex points:
// Meng and Brothers, Efficient Winograd Convolution via Integer Arithmetic, 2019.
#pragma once

#include "product_kernel.h"
#include "winograd_parts.h"

namespace microkernel::MICROKERNEL_LEVEL {

/// One line of an input tile at the points, as winograd_parts.h orders them; factors are the
/// weights'.
static inline void transform_in(const Vector (&d)[6], Vector (&out)[6]) {
  Vector even = d[2] + d[4], odd = d[1] + d[3];
  out[0] = d[0] - d[4];
  out[1] = d[5] - d[1];
  out[2] = even + odd;
  out[3] = even - odd;
  out[4] = d[4] - d[2];
  out[5] = d[3] - d[1];
}

/// One line of a tile of results, from their values at the points.
static inline void transform_out(const Vector (&m)[6], Vector (&out)[4]) {
  Vector plus = m[2] + m[3], minus = m[2] - m[3];
  out[0] = m[0] + (plus + m[4]);
  out[1] = minus - m[5];
  out[2] = plus - m[4];
  out[3] = m[1] + (minus + m[5]);
}

/// A vector of channels of the 6 x 6 pixels from (top, left) on, n of them; 0 outside of the image.
static inline void load_pixels(const WinogradBlock& b, int64_t top, int64_t left, int64_t c,
                               int64_t n, Vector (&pixels)[6][6]) {
  const float* corner = b.source + top * b.source_row + left * b.source_pixel + c;
  bool is_inside = top >= 0 && left >= 0 && top + 6 <= b.height && left + 6 <= b.width;
  int64_t row = b.source_row, pixel = b.source_pixel;
  if (is_inside && n >= lane_count) {  // most of them
    for (int i = 0; i < 6; ++i)
      for (int j = 0; j < 6; ++j) pixels[i][j] = load(corner + i * row + j * pixel);
    return;
  }
  for (int i = 0; i < 6; ++i)
    for (int j = 0; j < 6; ++j) {
      bool is_there = top + i >= 0 && top + i < b.height && left + j >= 0 && left + j < b.width;
      pixels[i][j] = is_there ? load(corner + i * row + j * pixel, n) : Vector{};
    }
}

/// Tile (y, x) of the source as row `tile` of the left matrices.
static void bring_tile(const WinogradBlock& b, int64_t tile, int64_t y, int64_t x,
                       float* matrices) {
  int64_t top = 4 * y - b.padding[0], left = 4 * x - b.padding[1];
  int64_t step = winograd_step(b.tiles * b.channels);
  for (int64_t c = 0; c < b.channels; c += lane_count) {
    int64_t n = b.channels - c;
    Vector pixels[6][6], lines[6][6], values[6][6];
    load_pixels(b, top, left, c, n, pixels);
    for (int j = 0; j < 6; ++j) {
      Vector d[6], line[6];
      for (int i = 0; i < 6; ++i) d[i] = pixels[i][j];
      transform_in(d, line);
      for (int i = 0; i < 6; ++i) lines[i][j] = line[i];
    }
    for (int i = 0; i < 6; ++i) transform_in(lines[i], values[i]);
    float* to = matrices + tile * b.channels + c;
    split_into_parts<float>(
        values, [&](int part, Vector v)
                    __attribute__((always_inline)) { store(to + part * step, v, n); });
  }
}

/// Row `tile` of the products as tile (y, x) of the result.
static void give_tile(const WinogradBlock& b, int64_t tile, int64_t y, int64_t x,
                      const float* products, int64_t column, int64_t column_end) {
  int64_t rows = b.out_height - 4 * y, columns = b.out_width - 4 * x;
  if (rows > 4) rows = 4;
  if (columns > 4) columns = 4;
  for (int64_t o = column; o < column_end; o += lane_count) {
    int64_t n = column_end - o;
    const float* from = products + tile * b.out_channels + o;
    Vector values[6][6], lines[4][6];
    join_parts<float>(
        values, [&](int part) __attribute__((always_inline)) {
          return load(from + part * winograd_step(b.tiles * b.out_channels), n);
        });
    for (int j = 0; j < 6; ++j) {
      Vector m[6], line[4];
      for (int i = 0; i < 6; ++i) m[i] = values[i][j];
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
  constexpr int64_t longest_chain = 96;  // the way back adds errors up
  ProductBlock whole{};
  whole.n = b.out_channels, whole.panels = b.panels;
  int64_t column = whole.column(b.panel, lane_count);
  int64_t column_end = whole.column(b.panel_end, lane_count);
  float* products = b.scratch + winograd_parts * winograd_step(b.tiles * b.channels);
  for (int64_t t = 0; t < b.tiles; ++t)
    bring_tile(b, t, (b.first + t) / b.tiles_across, (b.first + t) % b.tiles_across, b.scratch);
  for (int64_t p = 0; p < winograd_parts; ++p)
    multiply<Plain<float>, longest_chain>({0, b.tiles, b.channels, b.out_channels, b.panel,
                                           b.panel_end, b.panels,
                                           b.scratch + p * winograd_step(b.tiles * b.channels),
                                           b.channels, 1, b.packed + p * b.packed_size, 0, nullptr,
                                           products + p * winograd_step(b.tiles * b.out_channels),
                                           false, 0, b.out_channels, nullptr, 0});
  for (int64_t t = 0; t < b.tiles; ++t)
    give_tile(b, t, (b.first + t) / b.tiles_across, (b.first + t) % b.tiles_across, products,
              column, column_end);
}

}  // namespace microkernel::MICROKERNEL_LEVEL
