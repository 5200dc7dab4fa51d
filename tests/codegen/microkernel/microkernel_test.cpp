// Attention and convolutions of the microkernels beside sums in f64: shapes around the borders of
// tiles, panels and blocks.
#include "codegen/microkernel/levels.h"
#include "plugins/random_numbers.h"

#include <gtest/gtest.h>
#include <microkernel/attention.h>
#include <microkernel/product.h>
#include <microkernel/windows.h>
#include <microkernel/winograd.h>

#include <cmath>
#include <vector>

namespace {

using microkernel::Finish;

// ---- attention

struct AttentionShape {
  int64_t queries, keys, channels, value_channels;
  enum Mask { none, causal, added, allowed } mask;
};

using MicrokernelAttention = testing::TestWithParam<AttentionShape>;

/// One query's weights of the keys, before they are divided by their sum, and that sum.
std::pair<std::vector<double>, double> powers_of(const AttentionShape& s, int64_t q,
                                                 const microkernel::AttentionTile& t) {
  std::vector<double> out;
  double top = -INFINITY, sum = 0;
  for (int64_t k = 0; k < s.keys; ++k) {
    double score = 0;
    for (int64_t c = 0; c < s.channels; ++c)
      score += double(t.query[q * t.query_row + c]) * double(t.key[k * t.key_row + c]);
    score *= double(t.scale);
    if (t.mask) score += double(t.mask[q * t.mask_row + k * t.mask_column]);
    bool hidden =
        (t.allowed && !t.allowed[q * t.mask_row + k * t.mask_column]) || (t.is_causal && k > q);
    out.push_back(hidden ? -INFINITY : score);
    top = std::max(top, out.back());
  }
  for (double& x : out) sum += x = std::isinf(top) ? 0 : std::exp(x - top);
  return {out, sum};
}

void check_attention(const AttentionShape& s) {
  int64_t query_row = s.channels + 1, value_row = s.value_channels + 2;
  std::vector<float> query = random_numbers<float>(s.queries * query_row, 1);
  std::vector<float> key = random_numbers<float>(s.keys * s.channels, 2);
  std::vector<float> value = random_numbers<float>(s.keys * value_row, 3);
  std::vector<float> mask = random_numbers<float>(s.queries * s.keys, 4);
  std::vector<uint8_t> allowed;
  for (float x : mask) allowed.push_back(x > 0.2f);
  for (int64_t k = 0; k < s.keys; ++k) allowed[size_t(k)] = 0;  // the first query sees nothing
  std::vector<float> result(query.size() + size_t(s.queries * s.value_channels));
  int64_t most = microkernel::attention_queries();
  std::vector<float> scratch(size_t(microkernel::attention_scratch(s.channels, s.value_channels)) +
                             16);
  microkernel::AttentionTile tile{};
  tile.keys = s.keys, tile.channels = s.channels, tile.value_channels = s.value_channels;
  tile.query_row = query_row, tile.key_row = s.channels, tile.value_row = value_row;
  tile.result_row = s.value_channels, tile.mask_row = s.keys, tile.mask_column = 1;
  tile.key = key.data(), tile.value = value.data(), tile.scale = 0.3f;
  tile.is_causal = s.mask == AttentionShape::causal;
  tile.scratch = scratch.data();
  microkernel::AttentionTile whole = tile;
  whole.query = query.data();
  if (s.mask == AttentionShape::added) whole.mask = mask.data();
  if (s.mask == AttentionShape::allowed) whole.allowed = allowed.data();
  for (int64_t first = 0; first < s.queries; first += most) {
    tile.first_query = first, tile.queries = std::min(most, s.queries - first);
    tile.query = query.data() + first * query_row;
    tile.result = result.data() + first * s.value_channels;
    tile.mask = whole.mask ? whole.mask + first * s.keys : nullptr;
    tile.allowed = whole.allowed ? whole.allowed + first * s.keys : nullptr;
    microkernel::attend(tile);
  }
  for (int64_t q = 0; q < s.queries; ++q) {
    auto [powers, sum] = powers_of(s, q, whole);
    for (int64_t j = 0; j < s.value_channels; ++j) {
      double expected = 0;
      for (int64_t k = 0; k < s.keys; ++k)
        expected += powers[size_t(k)] * double(value[size_t(k * value_row + j)]);
      ASSERT_NEAR(double(result[size_t(q * s.value_channels + j)]), sum > 0 ? expected / sum : 0,
                  2e-6)
          << q << ", " << j;
    }
  }
}

TEST_P(MicrokernelAttention, EqualsSoftmaxInDouble) {
  at_each_level([] { check_attention(GetParam()); });
}

INSTANTIATE_TEST_SUITE_P(Shapes, MicrokernelAttention,
                         testing::Values(AttentionShape{1, 1, 1, 1, AttentionShape::none},
                                         AttentionShape{5, 33, 16, 32, AttentionShape::none},
                                         AttentionShape{70, 300, 24, 20, AttentionShape::added},
                                         AttentionShape{130, 513, 64, 64, AttentionShape::allowed},
                                         AttentionShape{65, 65, 8, 70, AttentionShape::causal},
                                         AttentionShape{300, 300, 32, 16, AttentionShape::causal},
                                         AttentionShape{17, 257, 64, 3, AttentionShape::allowed}));

// ---- convolutions by Winograd's method

struct ImageShape {
  int64_t images, channels, height, width, out_channels, padding;
  int64_t threads;
};

using MicrokernelWinograd = testing::TestWithParam<ImageShape>;

void check_winograd(const ImageShape& s) {
  int64_t out_height = s.height + 2 * s.padding - 2, out_width = s.width + 2 * s.padding - 2;
  int64_t pixel = s.channels + 1, out_pixel = s.out_channels + 2;
  microkernel::WinogradConvolution conv{s.images,
                                        s.channels,
                                        s.height,
                                        s.width,
                                        s.out_channels,
                                        out_height,
                                        out_width,
                                        {s.padding, s.padding},
                                        s.height * s.width * pixel,
                                        s.width * pixel,
                                        pixel,
                                        out_height * out_width * out_pixel,
                                        out_width * out_pixel,
                                        out_pixel};
  std::vector<float> source = random_numbers<float>(s.images * conv.source_image, 1);
  std::vector<float> weights = random_numbers<float>(s.out_channels * s.channels * 9, 2);
  std::vector<float> bias = random_numbers<float>(s.out_channels, 3);
  std::vector<float> more = random_numbers<float>(s.images * conv.result_image, 4);
  std::vector<float> result(more.size(), 77.0f), packed(size_t(conv.packed_size()));
  int64_t strides[4] = {s.channels * 9, 9, 3, 1};
  for (int64_t p = 0; p < conv.pack_parts(); ++p)
    conv.pack(p, weights.data(), strides, packed.data());
  Finish finish[] = {{Finish::Kind::add, more.data()}};
  auto cut = conv.cut(s.threads);
  std::vector<float> scratch(size_t(conv.scratch_size(cut)));
  for (int64_t c = 0; c < cut.chunks; ++c)
    conv.run(cut, c, {source.data(), packed.data(), bias.data(), result.data(), finish},
             scratch.data());
  auto sum_at = [&](int64_t image, int64_t y, int64_t x, int64_t o) {
    double sum = 0;
    for (int64_t i = 0; i < 9; ++i) {
      int64_t row = y + i / 3 - s.padding, column = x + i % 3 - s.padding;
      if (row < 0 || row >= s.height || column < 0 || column >= s.width) continue;
      const float* from =
          source.data() + image * conv.source_image + row * conv.source_row + column * pixel;
      for (int64_t c = 0; c < s.channels; ++c)
        sum += double(from[c]) * double(weights[size_t((o * s.channels + c) * 9 + i)]);
    }
    return sum;
  };
  for (int64_t image = 0; image < s.images; ++image)
    for (int64_t y = 0; y < out_height; ++y)
      for (int64_t x = 0; x < out_width; ++x)
        for (int64_t o = 0; o < out_pixel; ++o) {
          auto at = size_t(image * conv.result_image + y * conv.result_row + x * out_pixel + o);
          if (o >= s.out_channels)
            ASSERT_EQ(result[at], 77.0f);
          else
            ASSERT_NEAR(double(result[at]),
                        sum_at(image, y, x, o) + double(bias[size_t(o)]) + double(more[at]), 2e-4)
                << image << ", " << y << ", " << x << ", " << o;
        }
}

TEST_P(MicrokernelWinograd, EqualsSumsInDouble) {
  at_each_level([] { check_winograd(GetParam()); });
}

INSTANTIATE_TEST_SUITE_P(Shapes, MicrokernelWinograd,
                         testing::Values(ImageShape{1, 1, 3, 3, 1, 0, 1},
                                         ImageShape{1, 16, 8, 8, 16, 1, 2},
                                         ImageShape{2, 20, 9, 14, 33, 1, 1},
                                         ImageShape{1, 40, 15, 6, 130, 2, 3},
                                         ImageShape{3, 64, 21, 17, 48, 0, 2}));

// ---- convolutions as products of windows

TEST(MicrokernelWindows, TimesPackedWeightsAreTheConvolution) {
  microkernel::Windows windows{2,      5,      6,      7,         3,     4, {3, 2},
                               {2, 2}, {1, 1}, {1, 2}, 6 * 7 * 8, 7 * 8, 8};
  int64_t n = 21, k = windows.columns(), rows = windows.rows();
  std::vector<float> source = random_numbers<float>(2 * windows.source_image, 1);
  std::vector<float> weights = random_numbers<float>(n * 5 * 3 * 2, 2);
  microkernel::Panels panels{k, n};
  std::vector<float> packed(size_t(panels.size())), matrix(size_t(rows * k));
  std::vector<float> result(size_t(rows * n));
  windows.pack(weights.data(), {5 * 3 * 2, 3 * 2, 2, 1}, n, 0, panels.count(), packed.data());
  windows.gather(source.data(), 0, 7, matrix.data());
  windows.gather(source.data(), 7, rows, matrix.data());
  microkernel::multiply(
      {panels, matrix.data(), k, 1, packed.data(), 0, nullptr, result.data(), n, {}}, 0, rows, 0,
      panels.count());
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t o = 0; o < n; ++o) {
      double sum = 0;
      for (int64_t i = 0; i < 3; ++i)
        for (int64_t j = 0; j < 2; ++j) {
          int64_t y = r % 12 / 4 * 2 - 1 + i, x = r % 4 * 2 - 1 + 2 * j;
          if (y < 0 || y >= 6 || x < 0 || x >= 7) continue;
          for (int64_t c = 0; c < 5; ++c)
            sum += double(source[size_t(r / 12 * windows.source_image + (y * 7 + x) * 8 + c)]) *
                   double(weights[size_t(((o * 5 + c) * 3 + i) * 2 + j)]);
        }
      ASSERT_NEAR(double(result[size_t(r * n + o)]), sum, 1e-5) << r << ", " << o;
    }
}

}  // namespace
