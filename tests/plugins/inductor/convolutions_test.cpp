// Convolutions and their gradients through the backend `inductor`: dimensions, dtypes, layouts, and
// what becomes a part of them.
#include "plugins/inductor/graphs.h"
#include "plugins/inductor/ops.h"

namespace tenon {
namespace {

struct Geometry {
  const char* settings;  // stride, padding, dilation, transposed, output_padding, groups
  std::vector<int64_t> source, weights, result;
};

std::string type_of(const std::vector<int64_t>& sizes, const std::string& dtype = "f32") {
  std::string out;
  for (int64_t s : sizes) out += (out.empty() ? "" : ", ") + std::to_string(s);
  return dtype + "[" + out + "]";
}

const Geometry geometries[] = {
    {"[1, 1], [1, 1], [1, 1], false, [0, 0], 1", {2, 16, 9, 12}, {32, 16, 3, 3}, {2, 32, 9, 12}},
    {"[2, 1], [0, 2], [2, 1], false, [0, 0], 2", {3, 6, 11, 8}, {4, 3, 2, 3}, {3, 4, 5, 10}},
    {"[1, 1], [1, 1], [1, 1], false, [0, 0], 8", {2, 8, 9, 9}, {8, 1, 3, 3}, {2, 8, 9, 9}},
    {"[1, 1], [0, 0], [1, 1], false, [0, 0], 1", {2, 16, 5, 6}, {24, 16, 1, 1}, {2, 24, 5, 6}},
    {"[2, 2], [0, 0], [1, 1], true, [0, 0], 1", {2, 16, 5, 6}, {16, 8, 2, 2}, {2, 8, 10, 12}},
    {"[2, 3], [1, 0], [1, 2], true, [1, 2], 3", {2, 6, 5, 4}, {6, 2, 3, 2}, {2, 6, 10, 14}},
    {"[2], [1], [1], false, [0], 1", {2, 16, 21}, {32, 16, 3}, {2, 32, 11}},
    {"[2], [1], [1], true, [1], 2", {2, 16, 11}, {16, 6, 3}, {2, 12, 22}},
    {"[1, 1, 1], [1, 1, 1], [1, 1, 1], false, [0, 0, 0], 1",
     {2, 16, 5, 9, 12},
     {32, 16, 3, 3, 3},
     {2, 32, 5, 9, 12}},
    {"[2, 1, 3], [0, 2, 1], [2, 1, 1], false, [0, 0, 0], 2",
     {2, 6, 11, 8, 10},
     {4, 3, 2, 3, 1},
     {2, 4, 5, 10, 4}},
    {"[1, 1, 1], [0, 0, 0], [1, 1, 1], false, [0, 0, 0], 1",
     {2, 16, 3, 5, 6},
     {24, 16, 1, 1, 1},
     {2, 24, 3, 5, 6}},
    {"[2, 2, 2], [0, 0, 0], [1, 1, 1], true, [0, 0, 0], 1",
     {2, 16, 3, 5, 6},
     {16, 8, 2, 2, 2},
     {2, 8, 6, 10, 12}},
    {"[1, 2, 3], [0, 1, 0], [1, 1, 2], true, [0, 1, 2], 3",
     {2, 6, 4, 5, 4},
     {6, 2, 1, 3, 2},
     {2, 6, 4, 10, 14}}};

/// The same numbers as this dtype holds them, and in f64.
struct Numbers {
  Tensor given, exact;
  Numbers(const Tensor& from, Dtype dtype) : given(from.to(dtype)), exact(given.to(Dtype::f64)) {}
  Numbers(const std::vector<int64_t>& sizes, Dtype dtype) : Numbers(randn(sizes), dtype) {}
};

class InductorConvolutions : public InductorOps {
 protected:
  /// `body` with every "$" in place of the dtype, against the same in double precision by the
  /// interpreter; relative to the largest result.
  static void expect_exact(const std::string& body, const std::vector<Numbers>& inputs, Dtype dtype,
                           const std::string& options = "", bool may_have_externs = false) {
    std::vector<Tensor> given, exact;
    for (const Numbers& n : inputs) given.push_back(n.given), exact.push_back(n.exact);
    auto graph = graph_in(dtype, body), wide = graph_in(Dtype::f64, body);
    auto artifact = compiled("inductor", graph, options);
    if (!may_have_externs) {
      EXPECT_EQ(externs_of(*artifact), "[]") << body;
    }
    auto found = run(*artifact, *graph, given);
    auto expected = run(*compiled("eager", wide), *wide, exact);
    double unit = dtype == Dtype::f64   ? 1e-14
                  : dtype == Dtype::f32 ? 2e-6
                  : dtype == Dtype::f16 ? 1e-3
                                        : 8e-3;
    for (size_t i = 0; i < found.size(); ++i) {
      EXPECT_EQ(found[i].dtype(), dtype);
      EXPECT_TRUE(found[i].is_contiguous()) << body;
      double largest = max(abs(expected[i])).item<double>();
      EXPECT_LE(distance(found[i], expected[i]), unit * largest) << "output " << i << body;
    }
  }
};

constexpr Dtype convolved_dtypes[] = {Dtype::f32, Dtype::bf16, Dtype::f16, Dtype::f64};

/// In f64, those of few channels a group and of one place.
bool stays_with_host(const Geometry& g, Dtype dtype) {
  int64_t taps = 1, groups = g.settings[std::string(g.settings).size() - 1] - '0';
  for (size_t d = 2; d < g.weights.size(); ++d) taps *= g.weights[d];
  return dtype == Dtype::f64 && (taps == 1 || g.source[1] / groups < 8 || g.result[1] / groups < 8);
}

/// Those that have kernels of their own on this processor.
std::vector<Dtype> native_dtypes() {
  if (__builtin_cpu_supports("avx512bf16")) return {Dtype::f32, Dtype::bf16};
  return {Dtype::f32};
}

TEST_F(InductorConvolutions, MayBeTransposedAndHaveOneToThreeDimensions) {
  for (Dtype dtype : convolved_dtypes)
    for (const Geometry& g : geometries)
      expect_exact(graph_of_op("convolution.default",
                               {type_of(g.source, "$"), type_of(g.weights, "$"),
                                type_of({g.result[1]}, "$")},
                               std::string(", ") + g.settings, type_of(g.result, "$")),
                   {{g.source, dtype}, {g.weights, dtype}, {{g.result[1]}, dtype}}, dtype, "",
                   stays_with_host(g, dtype));
}

TEST_F(InductorConvolutions, HaveGradients) {
  for (Dtype dtype : convolved_dtypes)
    for (const Geometry& g : geometries) {
      std::string body = graph_of_op(
          "convolution_backward.default",
          {type_of(g.result, "$"), type_of(g.source, "$"), type_of(g.weights, "$")},
          ", [" + std::to_string(g.result[1]) + "], " + g.settings + ", [true, true, true]",
          type_of(g.source, "$") + ", %w: " + type_of(g.weights, "$") +
              ", %s: " + type_of({g.result[1]}, "$"));
      body.replace(body.find("output %y"), 9, "output %y, %w, %s");
      expect_exact(body, {{g.result, dtype}, {g.source, dtype}, {g.weights, dtype}}, dtype, "",
                   stays_with_host(g, dtype));
    }
}

TEST_F(InductorConvolutions, AGradientMayBeOneNumberForAll) {
  expect_same(R"(
  input %g: f32[]
  input %x: f32[2, 4, 6, 6]
  input %w: f32[8, 4, 3, 3]
  %e: f32[2, 8, 6, 6] strides [0, 0, 0, 0] = aten.expand.default(%g, [2, 8, 6, 6])
  %y: f32[2, 4, 6, 6], %v: f32[8, 4, 3, 3], %b: f32[8] = aten.convolution_backward.default(%e, %x, %w, [8], [1, 1], [1, 1], [1, 1], false, [0, 0], 1, [true, true, true])
  output %y, %v, %b
)",
              {randn({}), randn({2, 4, 6, 6}), randn({8, 4, 3, 3})}, 1e-3);
}

// ---- what is a part of them

const char* const residual_block = R"(
  input %x: $[2, 16, 12, 12]
  input %w: $[32, 16, 3, 3] parameter static_address
  input %b: $[32] parameter static_address
  input %v: $[32, 32, 3, 3] parameter static_address
  input %d: $[32, 16, 1, 1] parameter static_address
  %c: $[2, 32, 12, 12] = aten.convolution.default(%x, %w, %b, [1, 1], [1, 1], [1, 1], false, [0, 0], 1)
  %s: $[2, 32, 12, 12] = aten.silu.default(%c)
  %e: $[2, 32, 12, 12] = aten.convolution.default(%s, %v, none, [1, 1], [1, 1], [1, 1], false, [0, 0], 1)
  %r: $[2, 32, 12, 12] = aten.convolution.default(%x, %d, none, [1, 1], [0, 0], [1, 1], false, [0, 0], 1)
  %a: $[2, 32, 12, 12] = aten.add.Tensor(%e, %r)
  %y: $[2, 32, 12, 12] = aten.relu.default(%a)
  output %y
)";
std::vector<Numbers> residual_inputs(Dtype dtype) {
  return {{{2, 16, 12, 12}, dtype},
          {{32, 16, 3, 3}, dtype},
          {{32}, dtype},
          {{32, 32, 3, 3}, dtype},
          {{32, 16, 1, 1}, dtype}};
}

TEST_F(InductorConvolutions, TakeActivationsAndResidualsInNarrowFloatsToo) {
  for (Dtype dtype : native_dtypes()) {
    expect_exact(residual_block, residual_inputs(dtype), dtype);
    auto artifact = compiled("inductor", graph_in(dtype, residual_block));
    EXPECT_LE(stats_of(*artifact)["kernels"], 1) << name_of(dtype);  // the last layout
  }
}

TEST_F(InductorConvolutions, RoundAfterEachOpWhereNumericsAreStrict) {
  auto graph = graph_in(Dtype::bf16, residual_block);
  auto artifact = compiled("inductor", graph, "numerics = 'strict'");
  EXPECT_GE(stats_of(*artifact)["kernels"], 2);  // silu, and the addition
  expect_exact(residual_block, residual_inputs(Dtype::bf16), Dtype::bf16, "numerics = 'strict'");
}

TEST_F(InductorConvolutions, AreComputedInF32WhereTheProcessorHasNoNarrowOnes) {
  const char* const level = "cpu = 'x86-64-v3'";
  auto artifact = compiled("inductor", graph_in(Dtype::bf16, residual_block), level);
  EXPECT_GE(stats_of(*artifact)["prepacked_items"], 4);  // weights and bias are widened once
  expect_exact(residual_block, residual_inputs(Dtype::bf16), Dtype::bf16, level);
}

TEST_F(InductorConvolutions, OfNothingHaveGradientsOfZero) {
  for (Dtype dtype : convolved_dtypes)
    expect_exact(R"(
  input %g: $[0, 8, 6, 6]
  input %x: $[0, 4, 6, 6]
  input %w: $[8, 4, 3, 3]
  %y: $[0, 4, 6, 6], %v: $[8, 4, 3, 3], %b: $[8] = aten.convolution_backward.default(%g, %x, %w, [8], [1, 1], [1, 1], [1, 1], false, [0, 0], 1, [true, true, true])
  output %v, %b
)",
                 {{{0, 8, 6, 6}, dtype}, {{0, 4, 6, 6}, dtype}, {{8, 4, 3, 3}, dtype}}, dtype);
}

TEST_F(InductorConvolutions, WriteOutputsInTheirLayout) {
  for (Dtype type : native_dtypes()) {
    std::string body = R"(
  input %x: $[1, 12, 20, 16]
  input %w: $[12, 1, 3, 3] parameter static_address
  input %b: $[12] parameter static_address
  %c: $[1, 12, 20, 16] = aten.convolution.default(%x, %w, %b, [1, 1], [1, 1], [1, 1], false, [0, 0], 12)
  %y: $[1, 12, 20, 16] = aten.relu.default(%c)
  output %y
)";
    expect_exact(body, {{{1, 12, 20, 16}, type}, {{12, 1, 3, 3}, type}, {{12}, type}}, type);
    auto artifact = compiled("inductor", graph_in(type, body));
    EXPECT_EQ(stats_of(*artifact)["kernels"], 0);
  }
}

TEST_F(InductorConvolutions, KeepTheChannelsOfVolumesLast) {
  auto graph = graph_of(R"(
  input %x: f32[2, 8, 4, 6, 5] strides [960, 1, 240, 40, 8]
  input %w: f32[16, 8, 3, 3, 3]
  %c: f32[2, 16, 4, 6, 5] strides [1920, 1, 480, 80, 16] = aten.convolution.default(%x, %w, none, [1, 1, 1], [1, 1, 1], [1, 1, 1], false, [0, 0, 0], 1)
  %y: f32[2, 16, 4, 6, 5] strides [1920, 1, 480, 80, 16] = aten.relu.default(%c)
  output %y
)");
  auto artifact = compiled("inductor", graph);
  EXPECT_EQ(stats_of(*artifact)["kernels"], 0);
  Tensor x = randn({2, 4, 6, 5, 8}).permute({0, 4, 1, 2, 3});
  std::vector<Tensor> inputs{x, randn({16, 8, 3, 3, 3})};
  Tensor y = run(*artifact, *graph, inputs)[0];
  EXPECT_EQ(y.stride(1), 1);
  EXPECT_LE(difference(graph, *artifact, inputs), 1e-3);
}

TEST_F(InductorConvolutions, PackNarrowWeightsAnewWhenTheyChange) {
  auto graph = graph_of(R"(
  input %x: bf16[2, 16, 4, 9, 9]
  input %w: bf16[32, 16, 3, 3, 3] parameter static_address
  %y: bf16[2, 32, 4, 9, 9] = aten.convolution.default(%x, %w, none, [1, 1, 1], [1, 1, 1], [1, 1, 1], false, [0, 0, 0], 1)
  output %y
)");
  auto artifact = compiled("inductor", graph);
  std::vector<Tensor> inputs{randn({2, 16, 4, 9, 9}).to(Dtype::bf16),
                             randn({32, 16, 3, 3, 3}).to(Dtype::bf16)};
  EXPECT_LE(difference(graph, *artifact, inputs), 1);  // of about 80
  inputs[1].mul_(-1);
  EXPECT_LE(difference(graph, *artifact, inputs), 1);
}

const char* const normalised = R"(
  input %x: $[2, 16, 20, 20]
  input %w: $[32, 16, 3, 3] parameter static_address
  input %g: $[32] parameter static_address
  input %b: $[32] parameter static_address
  input %m: $[32] buffer static_address
  input %v: $[32] buffer static_address
  %c: $[2, 32, 20, 20] = aten.convolution.default(%x, %w, none, [1, 1], [1, 1], [1, 1], false, [0, 0], 1)
  %n: $[2, 32, 20, 20], %s: $[0], %t: $[0] = aten._native_batch_norm_legit_no_training.default(%c, %g, %b, %m, %v, 0.1, 1e-05)
  %y: $[2, 32, 20, 20] = aten.relu.default(%n)
  output %y
)";
std::vector<Numbers> normalised_inputs(Dtype dtype) {
  std::vector<Numbers> out{{{2, 16, 20, 20}, dtype},
                           {{32, 16, 3, 3}, dtype},
                           {{32}, dtype},
                           {{32}, dtype},
                           {{32}, dtype},
                           {{32}, dtype}};
  out[5] = Numbers(rand({32}) + 0.5, dtype);
  return out;
}

TEST_F(InductorConvolutions, NarrowOnesTakeABatchNorm) {
  expect_exact(normalised, normalised_inputs(Dtype::bf16), Dtype::bf16);
  if (native_dtypes().size() == 1) GTEST_SKIP() << "no instructions for bf16";
  auto graph = graph_in(Dtype::bf16, normalised);
  nlohmann::json stats = stats_of(*compiled("inductor", graph));
  EXPECT_EQ(stats["conv"], 1);
  EXPECT_EQ(stats["kernels"], stats["prepacked_items"]);
  stats = stats_of(*compiled("inductor", graph, "numerics = 'strict'"));
  EXPECT_EQ(stats["prepacked_items"], 0);
}

TEST_F(InductorConvolutions, InF64KeepABatchNormExact) {
  expect_exact(normalised, normalised_inputs(Dtype::f64), Dtype::f64);
}

TEST_F(InductorConvolutions, StayAsTheyAreForOthersThatReadThemThroughAnOpThatChangesNothing) {
  for (const char* changes_nothing : {"sum.dim_IntList(%c, [2, 3], true)", "clone.default(%c)"})
    for (const char* other : {"%c", "%o"})
      expect_same(R"(
  input %x: f32[2, 3, 1, 1]
  input %w: f32[5, 3, 1, 1] parameter static_address
  input %m: f32[5] buffer static_address
  input %v: f32[5] buffer static_address
  %c: f32[2, 5, 1, 1] = aten.convolution.default(%x, %w, none, [1, 1], [0, 0], [1, 1], false, [0, 0], 1)
  %o: f32[2, 5, 1, 1] = aten.exp.default(%c)
  %s: f32[2, 5, 1, 1] = aten.)" +
                      std::string(changes_nothing) + R"(
  %n: f32[2, 5, 1, 1], %a: f32[0], %b: f32[0] = aten._native_batch_norm_legit_no_training.default(%s, none, none, %m, %v, 0.1, 1e-05)
  output %n, )" + other +
                      "\n",
                  {randn({2, 3, 1, 1}), randn({5, 3, 1, 1}), randn({5}), rand({5}) + 0.5}, 1e-5);
}

// Then the source of the gradient is longer than its windows.
TEST_F(InductorConvolutions, ATransposedOneMayAddToItsEnd) {
  const char* const body = R"(
  input %g: f32[3, 1, 3]
  input %x: f32[3, 2, 2]
  input %w: f32[2, 1, 1]
  %y: f32[3, 1, 3] = aten.convolution.default(%x, %w, none, [1], [0], [2], true, [1], 1)
  %a: f32[3, 2, 2], %b: f32[2, 1, 1], %c: none = aten.convolution_backward.default(%g, %x, %w, none, [1], [0], [2], true, [1], 1, [true, true, false])
  output %y, %a, %b
)";
  expect_same(body, {randn({3, 1, 3}), randn({3, 2, 2}), randn({2, 1, 1})}, 1e-5);
}

TEST_F(InductorConvolutions, ServeSizesThatTheyWereNotCompiledFor) {
  const char* const body = R"(
  symbol s0 in [1, 100] hint 9 from size(%x, 3)
  input %x: bf16[1, 16, 7, s0]
  input %w: bf16[32, 16, 3, 3] parameter static_address
  %y: bf16[1, 32, 7, s0] = aten.convolution.default(%x, %w, none, [1, 1], [1, 1], [1, 1], false, [0, 0], 1)
  output %y
)";
  Tensor w = randn({32, 16, 3, 3}).to(Dtype::bf16);
  for (int64_t n : {1, 2, 9, 40})
    expect_same(body, {randn({1, 16, 7, n}).to(Dtype::bf16), w}, 0.3, {n});
}

}  // namespace
}  // namespace tenon
