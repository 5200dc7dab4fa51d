// Convolutions in f64 by direct sums, their gradients, beside plain loops: shapes around the
// borders of tiles and vectors, on each level of vectors.
#include "codegen/microkernel/levels.h"
#include "plugins/random_numbers.h"

#include <gtest/gtest.h>

#include <microkernel/direct.h>

#include <cmath>
#include <vector>

namespace {

using microkernel::DirectAxis;

struct Shape {
  int64_t images, groups, channels, out_channels;  // of a group
  int64_t source[3], kernel[3], stride[3], padding[3], dilation[3];

  int64_t result(int d) const {
    return (source[d] + 2 * padding[d] - dilation[d] * (kernel[d] - 1) - 1) / stride[d] + 1;
  }
  int64_t taps() const { return kernel[0] * kernel[1] * kernel[2]; }
  std::array<DirectAxis, 3> axes(bool is_reversed) const {
    std::array<DirectAxis, 3> out;
    for (int d = 0; d < 3; ++d) {
      int64_t from = is_reversed ? result(d) : source[d], to = is_reversed ? source[d] : result(d);
      out[size_t(d)] = {from, to, kernel[d], stride[d], padding[d], dilation[d], is_reversed};
    }
    return out;
  }
};

/// Channels-last tensors of a shape: source and result, and contiguous weights.
struct Tensors {
  const Shape& s;
  int64_t by_source[4], by_result[4];
  int64_t all_in, all_out, n_source, n_result, n_weights;

  explicit Tensors(const Shape& s)
      : s(s), all_in(s.groups * s.channels), all_out(s.groups * s.out_channels) {
    int64_t step = all_in, out_step = all_out;
    for (int d = 2; d >= 0; --d) {
      by_source[1 + d] = step, step *= s.source[d];
      by_result[1 + d] = out_step, out_step *= s.result(d);
    }
    by_source[0] = step, by_result[0] = out_step;
    n_source = s.images * step, n_result = s.images * out_step;
    n_weights = all_out * s.channels * s.taps();
  }

  /// f(position in the source, in the result, in the weights) for each product of the convolution.
  template <class F>
  void for_each_product(F&& f) const {
    int64_t r[3], t[3];
    for (int64_t n = 0; n < s.images; ++n)
      for (r[0] = 0; r[0] < s.result(0); ++r[0])
        for (r[1] = 0; r[1] < s.result(1); ++r[1])
          for (r[2] = 0; r[2] < s.result(2); ++r[2]) {
            int64_t tap = 0;
            for (t[0] = 0; t[0] < s.kernel[0]; ++t[0])
              for (t[1] = 0; t[1] < s.kernel[1]; ++t[1])
                for (t[2] = 0; t[2] < s.kernel[2]; ++t[2], ++tap) {
                  int64_t from = n * by_source[0], to = n * by_result[0];
                  bool is_inside = true;
                  for (int d = 0; d < 3; ++d) {
                    int64_t at = r[d] * s.stride[d] - s.padding[d] + t[d] * s.dilation[d];
                    is_inside &= at >= 0 && at < s.source[d];
                    from += at * by_source[1 + d], to += r[d] * by_result[1 + d];
                  }
                  if (!is_inside) continue;
                  for (int64_t o = 0; o < all_out; ++o)
                    for (int64_t c = 0; c < s.channels; ++c)
                      f(from + o / s.out_channels * s.channels + c, to + o,
                        (o * s.channels + c) * s.taps() + tap);
                }
          }
  }
};

void expect_near(const std::vector<double>& found, const std::vector<double>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i)
    ASSERT_NEAR(found[i], expected[i], 1e-12 * (1 + std::abs(expected[i]))) << i;
}

int64_t space_stride(const Shape& s, int d) {
  return d == 2 ? 1 : d == 1 ? s.kernel[2] : s.kernel[1] * s.kernel[2];
}

/// Forward; or reversed, from the result to the source.
void check_convolution(const Shape& s, bool is_reversed) {
  Tensors t(s);
  microkernel::DirectConvolution conv{s.images,
                                      s.groups,
                                      is_reversed ? s.out_channels : s.channels,
                                      is_reversed ? s.channels : s.out_channels,
                                      s.axes(is_reversed),
                                      {},
                                      {},
                                      1};
  std::copy_n(is_reversed ? t.by_result : t.by_source, 4, conv.source_strides);
  std::copy_n(is_reversed ? t.by_source : t.by_result, 4, conv.result_strides);
  conv.find_places();
  std::vector<double> weights = random_numbers<double>(t.n_weights, 1);
  std::vector<double> from = random_numbers<double>(is_reversed ? t.n_result : t.n_source, 2);
  std::vector<double> bias = random_numbers<double>(is_reversed ? t.all_in : t.all_out, 3);
  std::vector<double> result(static_cast<size_t>(is_reversed ? t.n_source : t.n_result), NAN);
  std::vector<double> expected(result.size()), packed(size_t(conv.packed_size()), NAN);
  for (size_t i = 0; i < expected.size(); ++i) expected[i] = bias[i % bias.size()];
  t.for_each_product([&](int64_t at, int64_t to, int64_t w) {
    if (is_reversed) std::swap(at, to);
    expected[size_t(to)] += from[size_t(at)] * weights[size_t(w)];
  });
  int64_t channel = s.taps(), out = s.channels * s.taps();
  microkernel::DirectConvolution::Weights given{
      weights.data(),
      s.out_channels * out,
      is_reversed ? out : channel,
      is_reversed ? channel : out,
      {space_stride(s, 0), space_stride(s, 1), space_stride(s, 2)}};
  for (int64_t p = 0; p < conv.pack_parts(); ++p) conv.pack(p, given, packed.data());
  for (int64_t p = conv.parts(); p-- > 0;)
    conv.run(p, from.data(), packed.data(), bias.data(), result.data());
  expect_near(result, expected);
}

void check_correlation(const Shape& s) {
  Tensors t(s);
  int64_t out = s.channels * s.taps();
  microkernel::DirectCorrelation c{s.images,
                                   s.groups,
                                   s.channels,
                                   s.out_channels,
                                   s.axes(false),
                                   {},
                                   {},
                                   s.out_channels * out,
                                   s.taps(),
                                   out,
                                   {space_stride(s, 0), space_stride(s, 1), space_stride(s, 2)}};
  std::copy_n(t.by_source, 4, c.source_strides);
  std::copy_n(t.by_result, 4, c.gradient_strides);
  std::vector<double> source = random_numbers<double>(t.n_source, 1),
                      gradient = random_numbers<double>(t.n_result, 2);
  std::vector<double> result(size_t(t.n_weights), NAN), expected(result.size());
  t.for_each_product([&](int64_t at, int64_t to, int64_t w) {
    expected[size_t(w)] += source[size_t(at)] * gradient[size_t(to)];
  });
  for (int64_t p = c.parts(); p-- > 0;) c.run(p, source.data(), gradient.data(), result.data());
  expect_near(result, expected);
}

using MicrokernelDirect = testing::TestWithParam<Shape>;

TEST_P(MicrokernelDirect, EqualsPlainSums) {
  at_each_level([] {
    check_convolution(GetParam(), false);
    check_convolution(GetParam(), true);
    check_correlation(GetParam());
  });
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, MicrokernelDirect,
    testing::Values(Shape{1, 1, 1, 1, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, {0, 0, 0}, {1, 1, 1}},
                    Shape{2, 1, 8, 8, {1, 6, 7}, {1, 3, 3}, {1, 1, 1}, {0, 1, 1}, {1, 1, 1}},
                    Shape{1, 2, 9, 35, {1, 13, 11}, {1, 3, 2}, {1, 2, 3}, {0, 1, 0}, {1, 1, 2}},
                    Shape{2, 3, 33, 5, {1, 1, 29}, {1, 1, 4}, {1, 1, 2}, {0, 0, 3}, {1, 1, 1}},
                    Shape{1, 1, 17, 66, {5, 6, 9}, {3, 2, 3}, {2, 1, 2}, {1, 0, 2}, {1, 2, 1}},
                    Shape{1, 1, 8, 16, {3, 12, 12}, {2, 2, 2}, {3, 3, 3}, {0, 0, 0}, {1, 1, 1}},
                    Shape{1, 1, 10, 12, {1, 3, 3}, {1, 3, 3}, {1, 1, 1}, {0, 3, 3}, {1, 1, 1}}));

}  // namespace
