// Random ops: the generator, the distributions, and the same bits eager and compiled.
//
// Distributions are compared by the Kolmogorov-Smirnov statistic and by moments at fixed seeds. The
// bounds hold with a probability of about 0.999 for a right generator.
#include "core/random.h"
#include "core/threads/thread_pool.h"

#include <tenon/tenon.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace tenon {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;

constexpr int64_t n_samples = 40000;

std::vector<double> samples_of(const Tensor& t) { return t.to(Dtype::f64).to_vector<double>(); }

double moment(const std::vector<double>& x, double center, int order) {
  double sum = 0;
  for (double v : x) sum += std::pow(v - center, order);
  return sum / static_cast<double>(x.size());
}

// sqrt(n) times the largest distance to the distribution function `cdf`.
template <class F>
double kolmogorov_smirnov(std::vector<double> x, const F& cdf) {
  std::sort(x.begin(), x.end());
  double worst = 0, n = static_cast<double>(x.size());
  for (size_t i = 0; i < x.size(); ++i) {
    double p = cdf(x[i]), k = static_cast<double>(i);
    worst = std::max({worst, p - k / n, (k + 1) / n - p});
  }
  return worst * std::sqrt(n);
}
constexpr double ks_bound = 1.95;

double uniform_cdf(double x) { return std::clamp(x, 0.0, 1.0); }
double normal_cdf(double x) { return std::erfc(-x / std::sqrt(2.0)) / 2; }

// The published vector of Random123 for counter and key zero.
TEST(Random, PhiloxGivesItsKnownAnswer) {
  EXPECT_THAT(philox(0, 0), ElementsAre(0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8));
}

TEST(Random, SlopesOfRreluAreAResultWhereNothingIsWritten) {
  manual_seed(3);
  Tensor x = randn({40, 50}), noise = zeros({40, 50});
  auto [y, slopes] = rrelu_with_noise_functional(x, noise, 0.1, 0.3, true);
  EXPECT_TRUE(y.equal(x * slopes));
  EXPECT_TRUE(noise.equal(zeros({40, 50})));
  Tensor drawn = slopes.masked_select(x.le(0));
  EXPECT_GE(drawn.min().item<float>(), 0.1f);
  EXPECT_LE(drawn.max().item<float>(), 0.3f);
  EXPECT_TRUE(slopes.masked_select(x.gt(0)).eq(1).all().item<bool>());
  auto [evaluated, kept] = rrelu_with_noise_functional(x, noise, 0.1, 0.3);
  EXPECT_TRUE(evaluated.equal(leaky_relu(x, 0.2)));
  EXPECT_TRUE(kept.equal(noise));
}

class RandomSeed : public ::testing::TestWithParam<uint64_t> {
 protected:
  void SetUp() override { manual_seed(GetParam()); }
};

TEST_P(RandomSeed, UniformIsUniform) {
  for (Dtype dtype : {Dtype::f32, Dtype::f64}) {
    std::vector<double> x = samples_of(rand({n_samples}, dtype));
    EXPECT_LT(kolmogorov_smirnov(x, uniform_cdf), ks_bound);
    EXPECT_THAT(x, Each(::testing::AllOf(::testing::Ge(0.0), ::testing::Lt(1.0))));
    EXPECT_NEAR(moment(x, 0, 1), 0.5, 4 * std::sqrt(1.0 / 12 / n_samples));
    EXPECT_NEAR(moment(x, 0.5, 2), 1.0 / 12, 0.002);
  }
}

TEST_P(RandomSeed, ShortUniformNumbersStayBelowTheEnd) {
  for (Dtype dtype : {Dtype::f16, Dtype::bf16})
    EXPECT_THAT(samples_of(rand({n_samples}, dtype)), Each(::testing::Lt(1.0)));
}

TEST_P(RandomSeed, NormalIsNormal) {
  for (Dtype dtype : {Dtype::f32, Dtype::f64}) {
    std::vector<double> x = samples_of(randn({n_samples}, dtype));
    EXPECT_LT(kolmogorov_smirnov(x, normal_cdf), ks_bound);
    EXPECT_NEAR(moment(x, 0, 1), 0, 4 / std::sqrt(n_samples));
    EXPECT_NEAR(moment(x, 0, 2), 1, 4 * std::sqrt(2.0 / n_samples));
    EXPECT_NEAR(moment(x, 0, 3), 0, 4 * std::sqrt(15.0 / n_samples));
    EXPECT_NEAR(moment(x, 0, 4), 3, 4 * std::sqrt(96.0 / n_samples));
  }
}

TEST_P(RandomSeed, WritesTakeTheirParameters) {
  Tensor t = empty({n_samples}, Dtype::f64);
  std::vector<double> x = samples_of(t.normal_(3, 0.5));
  EXPECT_LT(kolmogorov_smirnov(x, [](double v) { return normal_cdf((v - 3) / 0.5); }), ks_bound);
  x = samples_of(t.uniform_(-2, 6));
  EXPECT_LT(kolmogorov_smirnov(x, [](double v) { return uniform_cdf((v + 2) / 8); }), ks_bound);
}

TEST_P(RandomSeed, NeighboursAreIndependent) {
  std::vector<double> x = samples_of(randn({n_samples}, Dtype::f64));
  for (size_t lag : {1u, 2u, 3u, 4u}) {
    double sum = 0;
    for (size_t i = lag; i < x.size(); ++i) sum += x[i] * x[i - lag];
    EXPECT_NEAR(sum / n_samples, 0, 4 / std::sqrt(n_samples)) << lag;
  }
}

TEST_P(RandomSeed, IntegersAreEquallyLikely) {
  std::vector<int64_t> count(7);
  for (double v : samples_of(randint(-3, 4, {n_samples}))) ++count.at(static_cast<size_t>(v + 3));
  double expected = n_samples / 7.0, chi = 0;
  for (int64_t c : count) chi += std::pow(static_cast<double>(c) - expected, 2) / expected;
  EXPECT_LT(chi, 22.46);  // 0.999 for six degrees of freedom
}

TEST_P(RandomSeed, MasksAreAsLikelyAsSaid) {
  double bound = 4 * std::sqrt(0.3 * 0.7 / n_samples);
  EXPECT_NEAR(moment(samples_of(bernoulli(full({n_samples}, 0.3))), 0, 1), 0.3, bound);
  auto [out, mask] = native_dropout(ones({n_samples}), 0.3, true);
  EXPECT_NEAR(moment(samples_of(mask), 0, 1), 0.7, bound);
  EXPECT_TRUE(out.equal(mask.to(Dtype::f32).div(0.7)));
}

TEST_P(RandomSeed, PermutationsAreFair) {
  std::vector<double> first;
  for (int i = 0; i < 4000; ++i) first.push_back(samples_of(randperm(5))[0]);
  EXPECT_NEAR(moment(first, 0, 1), 2, 4 * std::sqrt(2.0 / 4000));
  std::vector<double> all = samples_of(randperm(1000));
  std::sort(all.begin(), all.end());
  EXPECT_EQ(all, samples_of(arange(1000)));
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomSeed, ::testing::Values(0u, 1u, 42u, ~uint64_t{0}));

TEST(Random, SeedsAndStatesRepeat) {
  manual_seed(7);
  EXPECT_EQ(initial_seed(), 7u);
  Tensor a = randn({5});
  RngState state = rng_state();
  Tensor b = randn({5});
  EXPECT_FALSE(a.equal(b));
  set_rng_state(state);
  EXPECT_TRUE(randn({5}).equal(b));
  manual_seed(7);
  EXPECT_TRUE(randn({5}).equal(a));
}

TEST(Random, ThreadsDoNotMatter) {
  int before = num_threads();
  auto draw = [](int threads) {
    set_num_threads(threads);
    manual_seed(3);
    return randn({100001});
  };
  Tensor one = draw(1);
  EXPECT_TRUE(draw(2).equal(one));
  EXPECT_TRUE(draw(7).equal(one));
  set_num_threads(before);
}

class RandomCompiled : public ::testing::TestWithParam<const char*> {};

TEST_P(RandomCompiled, GivesTheBitsOfEagerCode) {
  auto body = [](const Tensor& x) {
    Tensor a = randn({4, 6}), b = randn({4, 6});
    Tensor kept = dropout(x.mul(a).add(b), 0.4, true);
    Tensor noise = x.clone().uniform_(-1, 1);
    return std::vector<Tensor>{
        kept,           noise,       bernoulli(x.sigmoid()), randint(9, {3}), randperm(11),
        normal(x, 2.0), rand_like(x)};
  };
  Tensor x = arange(24).to(Dtype::f32).sin().reshape({4, 6});
  auto f = compile(body, {.backend = GetParam()});
  manual_seed(11);
  std::vector<Tensor> first = body(x), second = body(x);
  RngState after = rng_state();
  manual_seed(11);
  for (const std::vector<Tensor>& expected : {first, second}) {
    std::vector<Tensor> found = f(x);
    for (size_t i = 0; i < expected.size(); ++i) EXPECT_TRUE(found[i].equal(expected[i])) << i;
  }
  EXPECT_EQ(rng_state(), after);
}

INSTANTIATE_TEST_SUITE_P(Backends, RandomCompiled,
                         ::testing::Values("eager", "aot_eager", "aot_eager_decomp_partition"));

}  // namespace
}  // namespace tenon
