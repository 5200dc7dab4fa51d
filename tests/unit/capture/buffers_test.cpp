// Functions of buffers: plain, compiled, with gradients.
#include <tenon/buffers.h>
#include <tenon/compiler.h>
#include <tenon/tenon.h>

#include "unit/message_of.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <optional>
#include <tuple>
#include <vector>

namespace tenon {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class Buffers : public testing::TestWithParam<const char*> {
 protected:
  Options with(Options options = {}) const {
    options.backend = GetParam();
    return options;
  }
};
INSTANTIATE_TEST_SUITE_P(Backends, Buffers, testing::Values("eager", "aot_eager", "inductor"),
                         [](const auto& test) { return std::string(test.param); });

Tensor doubles(std::vector<double> values) { return tensor(values); }

TEST_P(Buffers, ASumOfSquaresHasItsGradient) {
  auto energy = wrap_buffers([](array_view<const double, 1> x) { return sum(x * x); });
  auto f = compile(energy, with({.fullgraph = true}));
  for (int i = 0; i < 3; ++i) {
    Tensor x = doubles({0, 1, 2, 3, 4, 5}).requires_grad_();
    Tensor y = f(x);
    EXPECT_EQ(y.item<double>(), 55);
    y.backward();
    EXPECT_THAT(x.grad().to_vector<double>(), ElementsAre(0, 2, 4, 6, 8, 10));
  }
  EXPECT_EQ(f.stats().compiles, 1);
  EXPECT_EQ(energy(doubles({1, 2})).item<double>(), 5);
}

TEST_P(Buffers, ViewsInVectorsTuplesAndOptionals) {
  using V = array_view<float, 1>;
  auto fn = wrap_buffers([](const std::vector<V>& xs, std::optional<V> bias, double k) {
    V total = xs[0];
    for (size_t i = 1; i < xs.size(); ++i) total = total + xs[i];
    if (bias) total = total + *bias;
    return std::tuple(total * k, mean(total));
  });
  auto f = compile(fn, with());
  for (int i = 0; i < 2; ++i) {
    std::vector<Tensor> xs(3, ones({2}));
    auto [sums, average] = f(xs, ones({2}), 2.0);
    EXPECT_THAT(sums.to_vector<float>(), ElementsAre(8, 8));
    EXPECT_EQ(average.item<float>(), 4);
    EXPECT_EQ(std::get<1>(f(xs, std::nullopt, 2.0)).item<float>(), 3);
  }
}

TEST_P(Buffers, SpansAreReadOutsideOfTheGraph) {
  auto fn = wrap_buffers([](std::span<const float> x, array_view<float, 1> y) {
    return y * double(std::accumulate(x.begin(), x.end(), 0.0f));
  });
  auto f = compile(fn, with());
  for (float v : {1.0f, 2.0f, 3.0f})
    EXPECT_THAT(f(full({2}, v), ones({2})).to_vector<float>(), ElementsAre(2 * v, 2 * v));
  EXPECT_GE(f.stats().graph_breaks, 1);
  Tensor rows = tensor({{1.0f, 2.0f}, {3.0f, 4.0f}});
  EXPECT_THAT(f(rows.select(1, 1), ones({1})).to_vector<float>(), ElementsAre(6));
}

TEST_P(Buffers, WritesThroughViewsReachTheTensor) {
  auto fn = wrap_buffers(
      [](array_view<float, 2> x, array_view<const float, 1> row) { x.assign(x + row); });
  auto f = compile(fn, with());
  Tensor x = zeros({2, 2});
  for (int i = 0; i < 3; ++i) f(x, ones({2}));
  EXPECT_THAT(x.flatten().to_vector<float>(), ElementsAre(3, 3, 3, 3));
}

TEST_P(Buffers, WithoutTracingTheyRunUncompiled) {
  int runs = 0;
  auto fn = wrap_buffers([&](array_view<float, 1> x) {
    ++runs;
    EXPECT_FALSE(is_compiling());
    return x + 1.0;
  });
  auto patch = config::patch({{"dynamo.trace_numpy", false}});
  auto f = compile([&](const Tensor& x) { return fn(x * 2.0); }, with());
  for (int i = 0; i < 3; ++i) EXPECT_EQ(f(ones({1})).item<float>(), 3);
  EXPECT_EQ(runs, 3);
  EXPECT_EQ(f.stats().graph_breaks, 1);
}

struct Particles {
  array_view<double, 2> positions;
  array_view<double, 1> masses;
};

TEST_P(Buffers, StructsWithViewsAreTrees) {
  auto center = [](const Particles& p) {
    return array_view<double, 1>(
               p.masses.tensor().unsqueeze(0).mm(p.positions.tensor()).squeeze(0)) /
           sum(p.masses);
  };
  auto f = compile(center, with());
  for (int64_t n : {2, 3, 4}) {
    Particles p{array_view<double, 2>(ones({n, 3}, Dtype::f64)),
                array_view<double, 1>(ones({n}, Dtype::f64))};
    EXPECT_THAT(f(p).tensor().to_vector<double>(), ElementsAre(1, 1, 1));
  }
  EXPECT_LE(f.stats().compiles, 2);
}

TEST(BufferViews, ShowMemoryWithoutACopy) {
  float data[] = {1, 2, 3, 4, 5, 6};
  array_view<float, 2> rows(data, {2, 3});
  array_view<float, 2> columns(data, {3, 2}, {1, 3});
  EXPECT_EQ(rows(1, 0), 4);
  EXPECT_EQ(columns(0, 1), 4);
  EXPECT_EQ(rows.data(), data);
  rows.assign(rows * 2.0);
  EXPECT_EQ(data[5], 12);
  EXPECT_EQ(sum(columns)(), 42);
  EXPECT_THAT(sum(rows, 0).span(), ElementsAre(10, 14, 18));
  EXPECT_THAT(message_of([&] { static_cast<void>(columns.span()); }), HasSubstr("row-major"));
}

TEST(BufferViews, ElementTypesFollowTheOperands) {
  int64_t data[] = {1, 2, 3};
  array_view<int64_t, 1> x(data, {3});
  static_assert(std::is_same_v<decltype(x * 2), array_view<int64_t, 1>>);
  static_assert(std::is_same_v<decltype(x * 0.5), array_view<double, 1>>);
  static_assert(std::is_same_v<decltype(x / 2), array_view<double, 1>>);
  static_assert(std::is_same_v<decltype(x > 1), array_view<bool, 1>>);
  static_assert(std::is_same_v<decltype((x > 1) * 2), array_view<int64_t, 1>>);
  EXPECT_THAT((x * 0.5).span(), ElementsAre(0.5, 1, 1.5));
  EXPECT_THAT((1 / x).span(), ElementsAre(1, 0.5, 1.0 / 3));
  EXPECT_THAT(((x > 1) * 2).span(), ElementsAre(0, 2, 2));
  EXPECT_THAT(where(x > 1, x, -x).span(), ElementsAre(-1, 2, 3));
  EXPECT_THAT(sqrt(x * x).span(), ElementsAre(1, 2, 3));
  float row[] = {1, 2};
  array_view<const float, 1> reals(row, {2});
  static_assert(std::is_same_v<decltype(reals * 2.0), array_view<float, 1>>);
  static_assert(std::is_same_v<decltype(-reals), array_view<float, 1>>);
}

TEST(BufferErrors, NameDtypeAndRank) {
  auto fn = wrap_buffers([](array_view<double, 1> x) { return x; });
  EXPECT_THAT(message_of([&] { fn(ones({2})); }), HasSubstr("f64"));
  EXPECT_THAT(message_of([&] { fn(ones({2, 2}, Dtype::f64)); }), HasSubstr("1 dimensions"));
  auto writes = wrap_buffers([](std::span<float> x) { x[0] = 5; });
  Tensor t = ones({2, 2});
  writes(t);
  EXPECT_EQ(t[0][0].item<float>(), 5);
  EXPECT_THAT(message_of([&] { writes(t.select(1, 0)); }), HasSubstr("row-major"));
}

}  // namespace
}  // namespace tenon
