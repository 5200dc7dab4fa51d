// Exponential, softmax, normalisation and sums against loops in long double.
#include <cmath>
#include <limits>

#include "core/kernels/rows/normalize.h"
#include "core/kernels/rows/softmax.h"
#include "core/kernels/rows/sum.h"
#include "core/threads/thread_pool.h"
#include "kernel_test.h"

namespace tenon::kernels {
namespace {

struct RowLevels : EachLevel {};
TENON_TEST_EACH_LEVEL(RowLevels);

template <class T>
constexpr T infinity = std::numeric_limits<T>::infinity();

template <class T>
double ulps(T found, long double expected) {
  const T nearest = static_cast<T>(expected);
  if (found == nearest) return 0;
  const T next = std::nextafter(std::abs(nearest), infinity<T>);
  const long double ulp = static_cast<long double>(next) - std::abs(nearest);
  return static_cast<double>(std::abs(static_cast<long double>(found) - expected) / ulp);
}

template <class T>
double worst_exp(double low, double high) {
  const std::vector<T> x = random_values<T>(300001, low, high);
  std::vector<T> y(x.size());
  row_level<T>().exp(x.data(), y.data(), static_cast<int64_t>(x.size()));
  double worst = 0;
  for (size_t i = 0; i < x.size(); ++i)
    worst = std::max(worst, ulps(y[i], std::exp(static_cast<long double>(x[i]))));
  return worst;
}

TEST_P(RowLevels, ExponentialIsWithinTwoUlp) {
  EXPECT_LT(worst_exp<float>(-103, 88.7), 2);
  EXPECT_LT(worst_exp<float>(-1, 1), 2);
  EXPECT_LT(worst_exp<double>(-744, 709.7), 2);
  EXPECT_LT(worst_exp<double>(-1, 1), 2);
}

template <class T>
void check_special_exponents() {
  const T x[] = {0, -T(0), infinity<T>, -infinity<T>, 1000, -1000, static_cast<T>(NAN)};
  T y[7];
  row_level<T>().exp(x, y, 7);
  EXPECT_EQ(y[0], 1);
  EXPECT_EQ(y[1], 1);
  EXPECT_EQ(y[2], infinity<T>);
  EXPECT_EQ(y[3], 0);
  EXPECT_EQ(y[4], infinity<T>);
  EXPECT_EQ(y[5], 0);
  EXPECT_TRUE(std::isnan(y[6]));
}

TEST_P(RowLevels, ExponentialOfSpecialValues) {
  check_special_exponents<float>();
  check_special_exponents<double>();
}

// ---- softmax ----

template <class T>
void check_softmax(int64_t outer, int64_t n, int64_t inner, bool logarithm, double tolerance) {
  const std::vector<T> x = random_values<T>(outer * n * inner, -10, 10);
  std::vector<T> y = x;  // in place
  softmax(y.data(), y.data(), outer, n, inner, logarithm);
  for (int64_t o = 0; o < outer; ++o)
    for (int64_t i = 0; i < inner; ++i) {
      const auto at = [&](int64_t p) { return static_cast<size_t>((o * n + p) * inner + i); };
      long double sum = 0;
      for (int64_t p = 0; p < n; ++p) sum += std::exp(static_cast<long double>(x[at(p)]));
      for (int64_t p = 0; p < n; ++p) {
        const auto value = static_cast<long double>(x[at(p)]);
        const auto expected =
            static_cast<double>(logarithm ? value - std::log(sum) : std::exp(value) / sum);
        ASSERT_NEAR(static_cast<double>(y[at(p)]), expected,
                    tolerance * ((logarithm ? 1 : 1e-4) + std::abs(expected)))
            << outer << " x " << n << " x " << inner << ", element " << at(p);
      }
    }
}

TEST_P(RowLevels, SoftmaxAgreesForInnerAndStridedDimensions) {
  for (const bool logarithm : {false, true})
    for (const int64_t inner : {1, 2, 33, 64, 131})
      for (const int64_t n : {1, 2, 15, 16, 17, 100, 1000}) {
        check_softmax<float>(3, n, inner, logarithm, 2e-6);
        check_softmax<double>(2, n, inner, logarithm, 1e-14);
      }
  check_softmax<BFloat16>(3, 50, 1, false, 5e-3);
  check_softmax<BFloat16>(3, 50, 70, true, 5e-3);
  check_softmax<Half>(3, 50, 5, false, 6e-4);
}

TEST_P(RowLevels, SoftmaxOfSpecialRows) {
  float x[3][4] = {{-infinity<float>, 0, 0, -infinity<float>},
                   {-infinity<float>, -infinity<float>, -infinity<float>, -infinity<float>},
                   {1, NAN, 2, 3}};
  softmax(x[0], x[0], 3, 4, 1, false);
  EXPECT_EQ(x[0][0], 0);
  EXPECT_EQ(x[0][1], 0.5f);
  for (int j = 0; j < 4; ++j) {
    EXPECT_TRUE(std::isnan(x[1][j]));
    EXPECT_TRUE(std::isnan(x[2][j]));
  }
}

// ---- sums ----

template <class T>
void check_sum(int64_t outer, int64_t n, int64_t inner, double tolerance) {
  const std::vector<T> x = random_values<T>(outer * n * inner, 0, 1);
  std::vector<Compute<T>> y(static_cast<size_t>(outer * inner), 99);
  sum(x.data(), y.data(), outer, n, inner);
  for (int64_t o = 0; o < outer; ++o)
    for (int64_t i = 0; i < inner; ++i) {
      long double expected = 0;
      for (int64_t p = 0; p < n; ++p) expected += x[static_cast<size_t>((o * n + p) * inner + i)];
      const auto whole = static_cast<double>(expected);
      ASSERT_NEAR(y[static_cast<size_t>(o * inner + i)], whole, tolerance * std::max(1.0, whole))
          << outer << " x " << n << " x " << inner;
    }
}

TEST_P(RowLevels, SumsAgreeAndKeepTheirPrecision) {
  for (const int64_t inner : {1, 3, 16, 65, 300})
    for (const int64_t n : {0, 1, 7, 513, 5000}) {
      check_sum<float>(3, n, inner, 1e-6);
      check_sum<double>(2, n, inner, 1e-15);
    }
  check_sum<float>(1, 3000001, 1, 1e-6);  // a plain loop in float is off by 1e-3 here
  check_sum<float>(1, 300001, 5, 1e-6);
  check_sum<BFloat16>(2, 1000, 1, 1e-6);
  check_sum<Half>(2, 1000, 7, 1e-6);
}

TEST_P(RowLevels, TheNumberOfThreadsChangesNoBitOfASum) {
  const std::vector<float> x = random_values<float>(1000003);
  const int before = num_threads();
  float results[2];
  for (const int i : {0, 1}) {
    set_num_threads(i ? 5 : 1);
    sum(x.data(), results + i, 1, 1000003, 1);
  }
  set_num_threads(before);
  EXPECT_EQ(results[0], results[1]);
}

template <class T>
void check_extremes(int64_t n, T special, int64_t at) {
  std::vector<T> x = random_values<T>(n), most(x.size(), T(0.25)), least = most;
  if (at < n) x[static_cast<size_t>(at)] = special;
  const auto& level = row_level<T>();
  const T high = level.largest(x.data(), n, T(0.25)), low = level.smallest(x.data(), n, T(0.25));
  level.largest_of_each(x.data(), most.data(), n);
  level.smallest_of_each(x.data(), least.data(), n);
  T top = T(0.25), bottom = top;
  for (size_t i = 0; i < x.size(); ++i) {
    if (std::isnan(x[i])) {
      EXPECT_TRUE(std::isnan(high) && std::isnan(low) && std::isnan(most[i]));
      return;
    }
    top = std::max(top, x[i]), bottom = std::min(bottom, x[i]);
    EXPECT_EQ(most[i], std::max(T(0.25), x[i]));
    EXPECT_EQ(least[i], std::min(T(0.25), x[i]));
  }
  EXPECT_EQ(high, top);
  EXPECT_EQ(low, bottom);
}

TEST_P(RowLevels, ExtremesOfEveryLengthKeepNan) {
  for (int64_t n = 0; n < 140; ++n)
    for (int64_t at : {int64_t{0}, n / 2, n - 1}) {
      if (at < 0) continue;
      check_extremes<float>(n, 5.0f, at);
      check_extremes<float>(n, std::nanf(""), at);
      check_extremes<float>(n, -infinity<float>, at);
      check_extremes<double>(n, std::nan(""), at);
      check_extremes<double>(n, infinity<double>, at);
    }
}

// ---- normalisation ----

struct Moments {
  double mean, m2;
};
template <class T, class At>
Moments moments_of(const std::vector<T>& x, int64_t n, At at) {
  long double sum = 0, squares = 0;
  for (int64_t i = 0; i < n; ++i) sum += x[static_cast<size_t>(at(i))];
  const long double mean = sum / static_cast<long double>(n);
  for (int64_t i = 0; i < n; ++i) {
    const long double d = x[static_cast<size_t>(at(i))] - mean;
    squares += d * d;
  }
  return {static_cast<double>(mean), static_cast<double>(squares)};
}

template <class T>
void check_layer_norm(int64_t rows, int64_t n, double offset, double tolerance, bool affine) {
  const std::vector<T> x = random_values<T>(rows * n, offset - 1, offset + 1);
  const std::vector<T> w = random_values<T>(n), b = random_values<T>(n);
  std::vector<T> y = x;
  std::vector<Compute<T>> mean(static_cast<size_t>(rows)), rstd(mean);
  layer_norm(y.data(), y.data(), mean.data(), rstd.data(), rows, n, Compute<T>(1e-5),
             affine ? w.data() : nullptr, affine ? b.data() : nullptr);
  for (int64_t r = 0; r < rows; ++r) {
    const Moments m = moments_of(x, n, [&](int64_t i) { return r * n + i; });
    const double scale = 1 / std::sqrt(m.m2 / static_cast<double>(n) + 1e-5);
    ASSERT_NEAR(mean[static_cast<size_t>(r)], m.mean, tolerance * std::max(1.0, offset));
    ASSERT_NEAR(rstd[static_cast<size_t>(r)], scale, tolerance * scale * 10);
    for (int64_t i = 0; i < n; ++i) {
      const auto j = static_cast<size_t>(i);
      double expected = (static_cast<double>(x[static_cast<size_t>(r * n + i)]) - m.mean) * scale;
      if (affine) expected = expected * static_cast<double>(w[j]) + static_cast<double>(b[j]);
      ASSERT_NEAR(static_cast<double>(y[static_cast<size_t>(r * n + i)]), expected,
                  tolerance * 10 * std::max(1.0, offset));
    }
  }
}

TEST_P(RowLevels, LayerNormAgrees) {
  for (const int64_t n : {1, 2, 17, 64, 768, 3001}) {
    check_layer_norm<float>(5, n, 0, n == 1 ? 1e-5 : 1e-6, true);
    check_layer_norm<double>(3, n, 0, n == 1 ? 1e-13 : 1e-14, false);
  }
  check_layer_norm<float>(4, 1000, 1000, 1e-6, true);  // large mean: one pass would lose all digits
  check_layer_norm<BFloat16>(4, 100, 0, 2e-3, true);
  check_layer_norm<Half>(4, 100, 0, 2e-4, false);
}

TEST_P(RowLevels, ConstantRowsHaveNoDeviation) {
  std::vector<float> x(1000, 0.1f), y(1000);
  float mean, rstd;
  layer_norm<float>(x.data(), y.data(), &mean, &rstd, 1, 1000, 1e-5f, nullptr, nullptr);
  EXPECT_FLOAT_EQ(mean, 0.1f);
  EXPECT_FLOAT_EQ(rstd, 1 / std::sqrt(1e-5f));
  for (float v : y) EXPECT_NEAR(v, 0, 3e-6);
}

TEST_P(RowLevels, GroupNormUsesTheWeightOfEachChannel) {
  constexpr int64_t batch = 2, channels = 6, groups = 3, inner = 19, n = 2 * inner;
  const auto x = random_values<float>(batch * channels * inner, 3, 5);
  const auto w = random_values<float>(channels), b = random_values<float>(channels);
  std::vector<float> y(x.size()), mean(batch * groups), rstd(batch * groups);
  group_norm(x.data(), y.data(), mean.data(), rstd.data(), batch, channels, groups, inner, 1e-5f,
             w.data(), b.data());
  for (int64_t g = 0; g < batch * groups; ++g) {
    const Moments m = moments_of(x, n, [&](int64_t i) { return g * n + i; });
    const double scale = 1 / std::sqrt(m.m2 / n + 1e-5);
    EXPECT_NEAR(mean[static_cast<size_t>(g)], m.mean, 1e-6);
    for (int64_t i = 0; i < n; ++i) {
      const auto c = static_cast<size_t>(g % groups * 2 + i / inner);
      const auto at = static_cast<size_t>(g * n + i);
      EXPECT_NEAR(y[at], (x[at] - m.mean) * scale * w[c] + b[c], 1e-5);
    }
  }
}

TEST_P(RowLevels, ChannelMomentsMergeTheImages) {
  for (const int64_t inner : {1, 5, 100}) {
    constexpr int64_t batch = 4, channels = 3;
    const auto x = random_values<float>(batch * channels * inner, 99, 101);
    float mean[channels], m2[channels];
    channel_moments(x.data(), mean, m2, batch, channels, inner);
    for (int64_t c = 0; c < channels; ++c) {
      const Moments m = moments_of(x, batch * inner, [&](int64_t i) {
        return (i / inner * channels + c) * inner + i % inner;
      });
      EXPECT_NEAR(mean[c], m.mean, 2e-5);
      EXPECT_NEAR(m2[c], m.m2, 1e-5 * m.m2);
    }
  }
}

TEST_P(RowLevels, RowMomentsAndScaledChannels) {
  const auto x = random_values<double>(7 * 33);
  double mean[7], m2[7];
  row_moments(x.data(), mean, m2, 7, 33);
  std::vector<double> y(x.size());
  const double scale[7] = {1, 2, 3, 4, 5, 6, 7}, shift[7] = {7, 6, 5, 4, 3, 2, 1};
  scale_channels(x.data(), y.data(), 1, 7, 33, mean, scale, shift);
  for (int64_t r = 0; r < 7; ++r) {
    const Moments m = moments_of(x, 33, [&](int64_t i) { return r * 33 + i; });
    EXPECT_NEAR(m2[r], m.m2, 1e-13);
    for (int64_t i = 0; i < 33; ++i) {
      const auto at = static_cast<size_t>(r * 33 + i);
      EXPECT_NEAR(y[at], (x[at] - m.mean) * scale[r] + shift[r], 1e-13);
    }
  }
}

TEST_P(RowLevels, SixteenBitConversionsAgreeWithTheScalarOnes) {
  const KernelTable& table = kernel_table();
  std::vector<uint16_t> bits(65536), back(65536);
  std::vector<float> values(65536);
  for (size_t i = 0; i < bits.size(); ++i) bits[i] = static_cast<uint16_t>(i);
  for (const bool half : {false, true}) {
    (half ? table.from_f16 : table.from_bf16)(bits.data(), values.data(), 65535);
    for (size_t i = 0; i < 65535; ++i) {
      const float expected = half ? static_cast<float>(Half::from_bits(bits[i]))
                                  : static_cast<float>(BFloat16::from_bits(bits[i]));
      ASSERT_TRUE(values[i] == expected || (std::isnan(values[i]) && std::isnan(expected))) << i;
    }
    std::vector<float> odd = random_values<float>(65536, -70000, 70000);
    for (size_t i = 0; i < odd.size(); i += 3) odd[i] = odd[i] * 1e-9f;
    for (size_t i = 1; i < odd.size(); i += 3) odd[i] = values[i] * (1 + 0x1p-12f);
    (half ? table.to_f16 : table.to_bf16)(odd.data(), back.data(), 65535);
    for (size_t i = 0; i < 65535; ++i) {
      if (std::isnan(odd[i])) continue;
      ASSERT_EQ(back[i], half ? Half(odd[i]).bits : BFloat16(odd[i]).bits) << odd[i];
    }
  }
}

}  // namespace
}  // namespace tenon::kernels
