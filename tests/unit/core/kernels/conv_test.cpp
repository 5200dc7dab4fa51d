// Convolutions against loops over every index, in one to three dimensions.
#include "core/kernels/conv.h"

#include <cmath>

#include "core/threads/thread_pool.h"
#include "kernel_test.h"

namespace tenon::kernels {
namespace {

struct ConvLevels : EachLevel {};
TENON_TEST_EACH_LEVEL(ConvLevels);

struct Sizes {
  int64_t batch, in, out, groups;
  std::array<int64_t, 3> input, kernel, stride, padding, dilation;
};

ConvShape shape_of(const Sizes& s) {
  ConvShape shape{.batch = s.batch,
                  .in_channels = s.in,
                  .out_channels = s.out,
                  .groups = s.groups,
                  .input = s.input,
                  .kernel = s.kernel,
                  .stride = s.stride,
                  .padding = s.padding,
                  .dilation = s.dilation,
                  .output = {}};
  for (size_t d = 0; d < 3; ++d) {
    const int64_t reach = s.dilation[d] * (s.kernel[d] - 1) + 1;
    shape.output[d] = (s.input[d] + 2 * s.padding[d] - reach) / s.stride[d] + 1;
  }
  return shape;
}

// Calls f(out channel, in channel within group, image, place in x, in weight, in y) for each
// product of a convolution.
template <class F>
void each_product(const ConvShape& s, F f) {
  const auto at = [](const std::array<int64_t, 3>& n, int64_t z, int64_t y, int64_t x) {
    return (z * n[1] + y) * n[2] + x;
  };
  std::array<int64_t, 3> o, k, i;
  for (o[0] = 0; o[0] < s.output[0]; ++o[0])
    for (o[1] = 0; o[1] < s.output[1]; ++o[1])
      for (o[2] = 0; o[2] < s.output[2]; ++o[2])
        for (k[0] = 0; k[0] < s.kernel[0]; ++k[0])
          for (k[1] = 0; k[1] < s.kernel[1]; ++k[1])
            for (k[2] = 0; k[2] < s.kernel[2]; ++k[2]) {
              bool inside = true;
              for (size_t d = 0; d < 3; ++d) {
                i[d] = o[d] * s.stride[d] - s.padding[d] + k[d] * s.dilation[d];
                inside = inside && i[d] >= 0 && i[d] < s.input[d];
              }
              if (inside)
                f(at(s.input, i[0], i[1], i[2]), at(s.kernel, k[0], k[1], k[2]),
                  at(s.output, o[0], o[1], o[2]));
            }
}

// The three arrays of a convolution by index, for all channels.
template <class F>
void each_term(const ConvShape& s, F f) {
  each_product(s, [&](int64_t in, int64_t tap, int64_t out) {
    for (int64_t b = 0; b < s.batch; ++b)
      for (int64_t o = 0; o < s.out_channels; ++o)
        for (int64_t c = 0; c < s.in_per_group(); ++c) {
          const int64_t channel = o / s.out_per_group() * s.in_per_group() + c;
          f(static_cast<size_t>((b * s.in_channels + channel) * s.input_size() + in),
            static_cast<size_t>((o * s.in_per_group() + c) * s.kernel_size() + tap),
            static_cast<size_t>((b * s.out_channels + o) * s.output_size() + out));
        }
  });
}

constexpr Sizes cases[] = {
    {2, 3, 5, 1, {1, 9, 11}, {1, 3, 3}, {1, 1, 1}, {0, 1, 1}, {1, 1, 1}},
    {1, 16, 40, 1, {1, 14, 14}, {1, 3, 3}, {1, 2, 2}, {0, 1, 1}, {1, 1, 1}},
    {1, 3, 20, 1, {1, 33, 30}, {1, 7, 7}, {1, 2, 2}, {0, 3, 3}, {1, 1, 1}},
    {2, 8, 12, 4, {1, 10, 7}, {1, 3, 2}, {1, 1, 3}, {0, 2, 0}, {1, 2, 2}},
    {3, 7, 13, 1, {1, 1, 50}, {1, 1, 5}, {1, 1, 2}, {0, 0, 2}, {1, 1, 3}},
    {2, 4, 6, 2, {5, 6, 7}, {3, 2, 3}, {2, 1, 1}, {1, 0, 1}, {1, 1, 2}},
    {2, 20, 30, 1, {1, 6, 6}, {1, 1, 1}, {1, 1, 1}, {0, 0, 0}, {1, 1, 1}},
    {2, 12, 8, 2, {1, 6, 6}, {1, 1, 1}, {1, 1, 1}, {0, 0, 0}, {1, 1, 1}},
    {1, 9, 4, 1, {1, 6, 6}, {1, 1, 1}, {1, 2, 2}, {0, 0, 0}, {1, 1, 1}},
    {1, 40, 260, 1, {1, 7, 7}, {1, 3, 3}, {1, 1, 1}, {0, 1, 1}, {1, 1, 1}},
    // One input channel a group.
    {2, 6, 6, 6, {1, 12, 9}, {1, 3, 3}, {1, 1, 1}, {0, 1, 1}, {1, 1, 1}},
    {1, 4, 8, 4, {1, 15, 17}, {1, 5, 5}, {1, 2, 2}, {0, 2, 2}, {1, 1, 1}},
    {2, 3, 3, 3, {1, 20, 21}, {1, 3, 3}, {1, 3, 2}, {0, 4, 3}, {1, 2, 3}},
    {1, 1, 7, 1, {1, 28, 28}, {1, 5, 5}, {1, 1, 1}, {0, 0, 0}, {1, 1, 1}},
    {1, 2, 2, 2, {6, 5, 7}, {3, 3, 2}, {2, 1, 3}, {1, 1, 0}, {1, 2, 2}},
    {1, 3, 3, 3, {1, 1, 3}, {1, 1, 3}, {1, 1, 1}, {0, 0, 5}, {1, 1, 1}},
};

template <class T>
void expect_close(const std::vector<T>& found, const std::vector<double>& expected,
                  double tolerance, const std::string& what) {
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i)
    ASSERT_NEAR(static_cast<double>(found[i]), expected[i], tolerance * (1 + std::abs(expected[i])))
        << what << ", element " << i;
}

struct Arrays {
  size_t x, weight, y;
  explicit Arrays(const ConvShape& s)
      : x(static_cast<size_t>(s.batch * s.in_channels * s.input_size())),
        weight(static_cast<size_t>(s.out_channels * s.in_per_group() * s.kernel_size())),
        y(static_cast<size_t>(s.batch * s.out_channels * s.output_size())) {}
};

template <class T>
void check_forward(const ConvShape& s, bool with_bias, double tolerance, const std::string& what) {
  const Arrays n(s);
  const auto x = random_values<T>(static_cast<int64_t>(n.x));
  const auto w = random_values<T>(static_cast<int64_t>(n.weight));
  const auto bias = random_values<T>(s.out_channels);
  std::vector<T> y(n.y, T(99.0f));
  std::vector<double> expected(n.y, 0);
  if (with_bias)
    for (size_t i = 0; i < n.y; ++i)
      expected[i] = static_cast<double>(
          bias[i / static_cast<size_t>(s.output_size()) % static_cast<size_t>(s.out_channels)]);
  each_term(s, [&](size_t in, size_t tap, size_t out) {
    expected[out] += static_cast<double>(x[in]) * static_cast<double>(w[tap]);
  });
  conv(s, x.data(), w.data(), with_bias ? bias.data() : nullptr, y.data());
  expect_close(y, expected, tolerance, what);
}

TEST_P(ConvLevels, ForwardAgreesWithTheLoops) {
  for (const Sizes& sizes : cases)
    for (const bool bias : {false, true}) {
      const std::string what = "case " + std::to_string(&sizes - cases);
      check_forward<float>(shape_of(sizes), bias, 2e-5, what);
      check_forward<double>(shape_of(sizes), bias, 1e-13, what);
    }
  check_forward<BFloat16>(shape_of(cases[0]), true, 1e-2, "bf16");
  check_forward<Half>(shape_of(cases[10]), true, 2e-3, "f16");
}

// A transposed convolution is the convolution read backwards: y takes the place of x.
template <class T>
void check_transposed(const ConvShape& forward, bool with_bias, double tolerance,
                      const std::string& what) {
  ConvShape s = forward;
  std::swap(s.in_channels, s.out_channels);
  std::swap(s.input, s.output);
  const Arrays n(forward);
  const auto x = random_values<T>(static_cast<int64_t>(n.y));
  const auto w = random_values<T>(static_cast<int64_t>(n.weight));
  const auto bias = random_values<T>(s.out_channels);
  std::vector<T> y(n.x, T(99.0f));
  std::vector<double> expected(n.x, 0);
  if (with_bias)
    for (size_t i = 0; i < n.x; ++i)
      expected[i] = static_cast<double>(
          bias[i / static_cast<size_t>(s.output_size()) % static_cast<size_t>(s.out_channels)]);
  each_term(forward, [&](size_t in, size_t tap, size_t out) {
    expected[in] += static_cast<double>(x[out]) * static_cast<double>(w[tap]);
  });
  conv_transposed(s, x.data(), w.data(), with_bias ? bias.data() : nullptr, y.data());
  expect_close(y, expected, tolerance, what);
}

TEST_P(ConvLevels, TransposedAgreesWithTheLoops) {
  for (const Sizes& sizes : cases)
    for (const bool bias : {false, true}) {
      const std::string what = "case " + std::to_string(&sizes - cases);
      check_transposed<float>(shape_of(sizes), bias, 2e-5, what);
      check_transposed<double>(shape_of(sizes), bias, 1e-13, what);
    }
  check_transposed<Half>(shape_of(cases[0]), true, 2e-3, "f16");
}

template <class T>
void check_weight_grad(const ConvShape& s, double tolerance, const std::string& what) {
  const Arrays n(s);
  const auto x = random_values<T>(static_cast<int64_t>(n.x));
  const auto y = random_values<T>(static_cast<int64_t>(n.y));
  std::vector<T> w(n.weight, T(99.0f));
  std::vector<double> expected(n.weight, 0);
  each_term(s, [&](size_t in, size_t tap, size_t out) {
    expected[tap] += static_cast<double>(x[in]) * static_cast<double>(y[out]);
  });
  conv_weight_grad(s, x.data(), y.data(), w.data());
  expect_close(w, expected, tolerance, what);
}

TEST_P(ConvLevels, WeightGradAgreesWithTheLoops) {
  for (const Sizes& sizes : cases) {
    const std::string what = "case " + std::to_string(&sizes - cases);
    check_weight_grad<float>(shape_of(sizes), 4e-5, what);
    check_weight_grad<double>(shape_of(sizes), 1e-12, what);
  }
  check_weight_grad<BFloat16>(shape_of(cases[0]), 2e-2, "bf16");
}

TEST_P(ConvLevels, TheNumberOfThreadsChangesNoBit) {
  const int before = num_threads();
  for (const Sizes& sizes : cases) {
    const ConvShape s = shape_of(sizes);
    const Arrays n(s);
    const auto x = random_values<float>(static_cast<int64_t>(n.x));
    const auto w = random_values<float>(static_cast<int64_t>(n.weight));
    std::vector<float> y[2], dx[2], dw[2];
    ConvShape backward = s;
    std::swap(backward.in_channels, backward.out_channels);
    std::swap(backward.input, backward.output);
    for (const size_t i : {0, 1}) {
      set_num_threads(i == 0 ? 1 : 6);
      y[i].resize(n.y), dx[i].resize(n.x), dw[i].resize(n.weight);
      conv<float>(s, x.data(), w.data(), nullptr, y[i].data());
      conv_transposed<float>(backward, y[0].data(), w.data(), nullptr, dx[i].data());
      conv_weight_grad<float>(s, x.data(), y[0].data(), dw[i].data());
    }
    EXPECT_TRUE(y[0] == y[1] && dx[0] == dx[1] && dw[0] == dw[1]) << "case " << &sizes - cases;
  }
  set_num_threads(before);
}

TEST_P(ConvLevels, SumsOfNothingAreZeroOrTheBias) {
  ConvShape s = shape_of(cases[0]);
  s.in_channels = 0;
  s.groups = 1;
  const auto n = static_cast<size_t>(s.batch * s.out_channels * s.output_size());
  const auto bias = random_values<float>(s.out_channels);
  std::vector<float> y(n, 7);
  conv<float>(s, nullptr, nullptr, nullptr, y.data());
  EXPECT_EQ(y, std::vector<float>(n, 0));
  conv<float>(s, nullptr, nullptr, bias.data(), y.data());
  EXPECT_EQ(y.back(), bias.back());
  y.assign(n, 7);
  conv_transposed<float>(s, nullptr, nullptr, nullptr, y.data());
  EXPECT_EQ(y, std::vector<float>(n, 0));
}

TEST_P(ConvLevels, EmptyBatchesAreFine) {
  ConvShape s = shape_of(cases[0]);
  s.batch = 0;
  const auto w = random_values<float>(1000);
  std::vector<float> grad(5 * 3 * 9, 7);
  conv<float>(s, nullptr, w.data(), nullptr, nullptr);
  conv_transposed<float>(s, nullptr, w.data(), nullptr, nullptr);
  conv_weight_grad<float>(s, nullptr, nullptr, grad.data());
  EXPECT_EQ(grad[0], 0);
}

}  // namespace
}  // namespace tenon::kernels
