// Sizes that change from call to call, in the inductor backend: too large ones are errors, nested
// ones are computed once each, and weights are packed once for all of them.
#include <gmock/gmock.h>

#include "plugins/inductor/ops.h"

namespace tenon {
namespace {

using ::testing::HasSubstr;

using InductorSizes = InductorOps;

TEST_F(InductorSizes, MoreElementsThan64BitsCountAreAnError) {
  auto graph = graph_of(R"(
  symbol n in [2, inf] hint 4 from %k
  input %x: f32[1]
  input %k: int n
  %e: f32[n, n] = aten.expand.default(%x, [n, n])
  %d: f32[n, n] = aten.mul.Scalar(%e, 2)
  %c: f32[n, n] = aten.cumsum.default(%d, 0)
  %y: f32[] = aten.sum.default(%c)
  output %y
)");
  auto artifact = compiled("inductor", graph);
  EXPECT_LE(difference(graph, *artifact, {ones({1}), {}}, {5}), 1e-5);
  for (int64_t n : {int64_t{1} << 32, int64_t{1} << 33, int64_t{3037000500}})
    EXPECT_THAT(error_of([&] {
                  run(*artifact, *graph, {ones({1}), {}}, {n});
                }),
                HasSubstr("needs more bytes than 64 bits can count; pass smaller sizes"))
        << n;
  EXPECT_LE(difference(graph, *artifact, {ones({1}), {}}, {7}), 1e-5);
}

// Each size is made of the one before it twice, so a walk that counts both would take 2^40 steps.
TEST_F(InductorSizes, NestedSizesAreWalkedOnce) {
  auto halved = compile(
      [](const Tensor& x) {
        Tensor y = x;
        for (int i = 0; i < 40; ++i)
          y = cat({y.slice(0, 0, y.size(0) / 2 + 1), y.slice(0, 0, y.size(0) / 2)}, 0) + 1;
        return y.sum();
      },
      {.backend = "inductor", .dynamic = true});
  for (int64_t n : {9, 14}) EXPECT_GT(halved(ones({n})).item<float>(), 0);
}

// Each index is a quotient by a size that only the call knows.
TEST_F(InductorSizes, ViewsOverSizesThatNothingTiesToEachOther) {
  auto body = [](const Tensor& x, const Tensor& y) { return x.t().reshape(y.sizes()) * 2 + y; };
  auto viewed = compile(body, {.backend = "inductor", .dynamic = true});
  const int64_t sizes[][4] = {{6, 35, 10, 21},   {13, 7, 7, 13},       {64, 9, 24, 24},
                              {127, 30, 5, 762}, {1009, 2, 2, 1009},   {31, 1024, 512, 62},
                              {96, 96, 9, 1024}, {3, 43691, 131073, 1}};
  for (const auto& [a, b, c, d] : sizes) {
    Tensor x = randn({a, b}), y = randn({c, d});
    EXPECT_TRUE(equal(viewed(x, y), body(x, y))) << a << " x " << b << " as " << c << " x " << d;
  }
}

TEST_F(InductorSizes, WeightsArePackedOnceForAllSizes) {
  auto graph = graph_of(R"(
  symbol s in [1, 1000] hint 4 from size(%x, 0)
  symbol t in [1, 1000] hint 6 from size(%z, 0)
  input %x: f32[s, 64]
  input %z: f32[t]
  input %w: f32[64, 32] parameter static_address
  input %f: f32[16, 8, 3, 3] parameter static_address
  input %i: f32[s, 8, 12, 12]
  %p: f32[s, 32] = aten.mm.default(%x, %w)
  %q: f32[s, 16, 10, 10] = aten.convolution.default(
      %i, %f, none, [1, 1], [0, 0], [1, 1], false, [0, 0], 1)
  %y: f32[t] = aten.sin.default(%z)
  output %p, %q, %y
)");
  auto artifact = compiled("inductor", graph);
  Tensor w = randn({64, 32}), f = randn({16, 8, 3, 3});
  for (int64_t s : {4, 5, 5, 9})
    for (int64_t t : {6, 7, 3}) {
      std::vector<Tensor> inputs{randn({s, 64}), randn({t}), w, f, randn({s, 8, 12, 12})};
      EXPECT_LE(difference(graph, *artifact, inputs, {s, t}), 1e-3) << s << " and " << t;
    }
  int64_t packings = stats_of(*artifact)["packings"];
  // Images this small are computed whole, however many they are: the convolution wants one form.
  EXPECT_EQ(packings, 2);
  w.mul_(2);
  std::vector<Tensor> inputs{randn({3, 64}), randn({2}), w, f, randn({3, 8, 12, 12})};
  EXPECT_LE(difference(graph, *artifact, inputs, {3, 2}), 1e-3);
  EXPECT_GT(stats_of(*artifact)["packings"], packings);
}

// Sizes whose examples are 1, in one operand of each op: as it is used and as it is expanded.
std::string begins_at_one(const std::string& assumed) {
  return R"(
  symbol s in [1, inf] hint 1 from size(%x, 0)
  symbol t in [1, inf] hint 1 from size(%y, 0))" +
         assumed + R"(
  input %x: f32[s, 3]
  input %y: f32[t, 3]
  %p: f32[s, 3] = aten.mul.Tensor(%x, %y)
  %e: f32[s, 3] = aten.expand.default(%y, [s, 3])
  %q: f32[s, 3] = aten.sub.Tensor(%e, %x)
  output %p, %q
)";
}

TEST_F(InductorSizes, EqualSizesThatBeginAtOneAreNotRepeated) {
  auto graph = graph_of(begins_at_one("\n  assume s == t"));
  auto artifact = compiled("inductor", graph);
  EXPECT_EQ(externs_of(*artifact), "[]");
  for (int64_t n : {1, 2, 5, 1, 40})
    EXPECT_EQ(difference(graph, *artifact, {randn({n, 3}), randn({n, 3})}, {n, n}), 0) << n;
}

TEST_F(InductorSizes, ASizeThatIsAssumedToBeOneIsRepeated) {
  auto graph = graph_of(begins_at_one("\n  assume t == 1"));
  auto artifact = compiled("inductor", graph);
  EXPECT_EQ(externs_of(*artifact), "[]");
  for (int64_t n : {1, 2, 5})
    EXPECT_EQ(difference(graph, *artifact, {randn({n, 3}), randn({1, 3})}, {n, 1}), 0) << n;
}

TEST_F(InductorSizes, ASizeThatMayBeOneOrAnotherIsLeftToTheHost) {
  auto graph = graph_of(begins_at_one(""));
  auto artifact = compiled("inductor", graph);
  for (int64_t n : {1, 2, 5})
    for (int64_t t : {int64_t{1}, n})
      EXPECT_EQ(difference(graph, *artifact, {randn({n, 3}), randn({t, 3})}, {n, t}), 0)
          << n << " and " << t;
}

// The windows are views of the products: a loop that writes all of them would write some elements
// three times.
TEST_F(InductorSizes, WindowsWhoseNumberBeginsAtOneAreViews) {
  auto graph = graph_of(R"(
  symbol k in [1, inf] hint 1 from %n
  input %x: f32[k + 2]
  input %n: int k
  %d: f32[k + 2] = aten.mul.Scalar(%x, 2)
  %w: f32[k, 3] strides [1, 1] = aten.unfold.default(%d, 0, 3, 1)
  output %w
)");
  auto artifact = compiled("inductor", graph);
  for (int64_t k : {1, 4, 9})
    EXPECT_EQ(difference(graph, *artifact, {randn({k + 2}), {}}, {k}), 0) << k;
  EXPECT_THAT(artifact->describe(TN_DESC_IR), HasSubstr("k + 2"));
}

}  // namespace
}  // namespace tenon
