// Conditions on sizes that a backend asks for while it compiles: where they hold the code serves,
// where they break it is compiled anew and the reason names the backend.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backend/backend.h"
#include "backend/catalog.h"

#include <tenon/tenon.h>

namespace tenon {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class Conditions : public testing::Test {
 protected:
  void SetUp() override { set_plugin_search({}, {TENON_TEST_PLUGIN_DIR}); }
  config::Patch patch_ = config::patch({{"capture.mode", std::string("hit")}});
};

Tensor twice(const Tensor& x) { return x * 2; }

float sum_of(const Tensor& t) { return t.sum().item<float>(); }

TEST_F(Conditions, HeldOnesServeAndBrokenOnesCompileOnce) {
  auto f = compile(twice, {.backend = "wants_multiples_of_8", .dynamic = true});
  for (int64_t n : {8, 16, 24}) EXPECT_EQ(sum_of(f(ones({n}))), static_cast<float>(2 * n));
  EXPECT_EQ(f.stats().compiles, 1);
  EXPECT_EQ(f.stats().hits, 2);
  EXPECT_EQ(sum_of(f(ones({9}))), 18);
  EXPECT_EQ(f.stats().compiles, 2);
  for (int64_t n : {10, 17, 32, 40}) EXPECT_EQ(sum_of(f(ones({n}))), static_cast<float>(2 * n));
  EXPECT_EQ(f.stats().compiles, 2);
}

TEST_F(Conditions, TheReasonNamesTheConditionAndTheBackend) {
  auto f = compile(twice, {.backend = "wants_at_most_64", .dynamic = true});
  f(ones({64}));
  EXPECT_THAT(f.explain(), HasSubstr("arg0.size(0) <= 64 (asked for by backend wants_at_most_64)"));
  EXPECT_THAT(f.explain(), Not(HasSubstr("recompiled")));
  f(ones({65}));
  EXPECT_EQ(f.stats().compiles, 2);
  EXPECT_THAT(f.explain(),
              AllOf(HasSubstr("recompiled because"),
                    HasSubstr("/0: arg0.size(0) <= 64 (asked for by backend wants_at_most_64)")));
  f(ones({1000}));
  f(ones({2}));
  EXPECT_EQ(f.stats().compiles, 2);
}

TEST_F(Conditions, EverySymbolHasItsOwn) {
  auto f = compile([](const Tensor& x, const Tensor& y) { return x.sum() + y.sum(); },
                   {.backend = "wants_at_most_64", .dynamic = true});
  for (auto [n, m] : {std::pair<int64_t, int64_t>{5, 70}, {70, 5}, {6, 7}, {80, 90}})
    for (int64_t more : {0, 3})
      EXPECT_EQ(f(ones({n + more}), ones({m + more})).item<float>(),
                static_cast<float>(n + m + 2 * more));
  EXPECT_EQ(f.stats().compiles, 4);
}

TEST_F(Conditions, AnExactSizeIsAVersionEach) {
  auto f = compile(twice, {.backend = "wants_exact_sizes", .dynamic = true});
  for (int64_t n : {3, 4, 3, 4, 5, 3}) EXPECT_EQ(f(ones({n})).size(0), n);
  EXPECT_EQ(f.stats().compiles, 3);
}

TEST_F(Conditions, PiecesOfACutBodyKeepTheirCodeWithItsConditions) {
  auto f = compile(
      [](const Tensor& x) {
        Tensor y = x * 2;
        return y.sum().item<float>() > 0 ? y + 1 : y - 1;
      },
      {.backend = "wants_multiples_of_8", .dynamic = true});
  EXPECT_EQ(sum_of(f(ones({8}))), 24);
  EXPECT_EQ(f.stats().compiles, 2);
  EXPECT_EQ(sum_of(f(ones({16}))), 48);
  EXPECT_EQ(f.stats().compiles, 2);
  EXPECT_EQ(sum_of(f(ones({9}))), 27);
  EXPECT_EQ(f.stats().compiles, 4);
  for (int64_t n : {10, 32, 11, 8}) EXPECT_EQ(sum_of(f(ones({n}))), static_cast<float>(3 * n));
  EXPECT_EQ(f.stats().compiles, 4);
}

TEST_F(Conditions, ModelsCompileAnewOutsideOfThem) {
  auto model =
      load(TENON_TEST_DATA_DIR "/models/mlp_digits.pt2", {.backend = "wants_multiples_of_8"});
  auto eager = load(TENON_TEST_DATA_DIR "/models/mlp_digits.pt2", {.backend = "aot_eager"});
  auto calls = [&](std::initializer_list<int64_t> sizes) {
    for (int64_t n : sizes) {
      Tensor x = randn({n, 64});
      EXPECT_EQ(Tensor(model(x)).to_vector<float>(), Tensor(eager(x)).to_vector<float>());
    }
    return model.compiles();
  };
  size_t first = calls({8, 16, 512});
  EXPECT_EQ(calls({9, 1, 8, 24, 31}), first + 1);
}

}  // namespace
}  // namespace tenon
