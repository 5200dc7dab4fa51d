// Padding, pooling, upsampling with their gradients, and what else is a fold or a product.
#include "plugins/inductor/ops.h"

namespace tenon {
namespace {

TEST_F(InductorOps, PaddingRepeatsOrMirrorsTheBorder) {
  for (const char* kind : {"reflection", "replication"}) {
    std::string op = std::string(kind) + "_pad2d";
    expect_same(
        graph_of_op(op + ".default", {"f32[2, 3, 7, 20]"}, ", [3, 5, 2, 0]", "f32[2, 3, 9, 28]"),
        {randn({2, 3, 7, 20})});
    expect_same(graph_of_op(op + "_backward.default", {"f32[2, 3, 9, 28]", "f32[2, 3, 7, 20]"},
                            ", [3, 5, 2, 0]", "f32[2, 3, 7, 20]"),
                {randn({2, 3, 9, 28}), randn({2, 3, 7, 20})}, 1e-5);
  }
}

TEST_F(InductorOps, WidePaddingIsAddedUpPlaneByPlane) {
  expect_same(
      graph_of_op("replication_pad2d_backward.default", {"f32[2, 3, 30, 40]", "f32[2, 3, 7, 20]"},
                  ", [9, 11, 12, 11]", "f32[2, 3, 7, 20]"),
      {randn({2, 3, 30, 40}), randn({2, 3, 7, 20})}, 1e-4);
}

TEST_F(InductorOps, UpsamplingByWholeAndOtherFactors) {
  struct Case {
    const char *op, *more, *in, *out;
    int64_t width, height;
  };
  const Case cases[] = {{"nearest2d", "", "2, 3, 5, 7", "2, 3, 15, 14", 15, 14},
                        {"nearest2d", "", "2, 3, 5, 7", "2, 3, 8, 10", 8, 10},
                        {"nearest2d", "", "2, 3, 5, 7", "2, 3, 3, 4", 3, 4},
                        {"bilinear2d", ", false", "2, 3, 5, 7", "2, 3, 10, 14", 10, 14},
                        {"bilinear2d", ", true", "2, 3, 5, 7", "2, 3, 12, 9", 12, 9},
                        {"bilinear2d", ", false", "2, 3, 5, 7", "2, 3, 3, 2", 3, 2},
                        {"bicubic2d", ", false", "2, 3, 5, 7", "2, 3, 11, 13", 11, 13},
                        {"bicubic2d", ", true", "2, 3, 5, 7", "2, 3, 10, 20", 10, 20}};
  for (const Case& c : cases) {
    std::string in = std::string("f32[") + c.in + "]", out = std::string("f32[") + c.out + "]";
    std::string size = ", [" + std::to_string(c.width) + ", " + std::to_string(c.height) + "]";
    std::string op = std::string("upsample_") + c.op;
    expect_same(graph_of_op(op + ".default", {in}, size + c.more, out), {randn({2, 3, 5, 7})},
                1e-5);
    expect_same(graph_of_op(op + "_backward.default", {out}, size + ", [2, 3, 5, 7]" + c.more, in),
                {randn({2, 3, c.width, c.height})}, 1e-4);
  }
}

// The host's kernel reads whole rows; what depends on parameters only is made once, by code.
TEST_F(InductorOps, LargeImagesAreEnlargedByTheHost) {
  for (const char* op : {"upsample_bilinear2d", "upsample_bicubic2d"}) {
    std::string text = graph_of_op(std::string(op) + ".default", {"f32[2, 3, 20, 20]"},
                                   ", [40, 40], false", "f32[2, 3, 40, 40]");
    auto graph = graph_of(text);
    auto artifact = compiled("inductor", graph);
    EXPECT_NE(externs_of(*artifact), "[]") << op;
    Tensor x = randn({2, 3, 20, 20});
    auto expected = run(*compiled("eager", graph), *graph, {x});
    EXPECT_EQ(distance(run(*artifact, *graph, {x})[0], expected[0]), 0) << op;
    EXPECT_EQ(externs_of(*compiled("inductor", graph, "fallback = 'error'")), "[]") << op;
    std::string of_parameter = text;
    of_parameter.insert(of_parameter.find("\n", 1), " parameter static_address");
    EXPECT_EQ(externs_of(*compiled("inductor", graph_of(of_parameter))), "[]") << op;
  }
}

// Code would ask each element which results it took part in.
TEST_F(InductorOps, TheHostGivesBackWhatWeightsTook) {
  for (const char* op : {"upsample_bilinear2d_backward", "upsample_bicubic2d_backward"}) {
    auto graph = graph_of(graph_of_op(std::string(op) + ".default", {"f32[2, 3, 40, 40]"},
                                      ", [40, 40], [2, 3, 20, 20], false", "f32[2, 3, 20, 20]"));
    auto artifact = compiled("inductor", graph);
    EXPECT_NE(externs_of(*artifact), "[]") << op;
    Tensor g = randn({2, 3, 40, 40});
    auto expected = run(*compiled("eager", graph), *graph, {g});
    EXPECT_EQ(distance(run(*artifact, *graph, {g})[0], expected[0]), 0) << op;
    EXPECT_EQ(externs_of(*compiled("inductor", graph, "fallback = 'error'")), "[]") << op;
  }
}

TEST_F(InductorOps, UpsamplingServesAllSizes) {
  const char* const forward = R"(
  symbol s0 in [2, 100] hint 8 from size(%x, 2)
  input %x: f32[1, 2, s0, 5]
  %y: f32[1, 2, 2*s0, 13] = aten.upsample_bilinear2d.default(%x, [2*s0, 13], false)
  %z: f32[1, 2, 2*s0, 10] = aten.upsample_nearest2d.default(%x, [2*s0, 10])
  output %y, %z
)";
  const char* const backward = R"(
  symbol s0 in [2, 100] hint 8 from size(%g, 3)
  input %g: f32[1, 2, 9, s0]
  %y: f32[1, 2, 4, 3] = aten.upsample_bilinear2d_backward.default(%g, [9, s0], [1, 2, 4, 3], false)
  output %y
)";
  for (int64_t n : {2, 3, 17}) {
    expect_same(forward, {randn({1, 2, n, 5})}, 1e-5, {n});
    expect_same(backward, {randn({1, 2, 9, n})}, 1e-4, {n});
  }
}

struct Pooling {
  const char *more, *out;
  std::vector<int64_t> sizes;
};

TEST_F(InductorOps, MeansOverWindowsAndTheirGradients) {
  // kernel, stride, padding, ceil_mode, count_include_pad, divisor_override
  const Pooling cases[] = {
      {", [3, 2], [2, 2], [1, 1], false, true, none", "f32[2, 3, 6, 11]", {2, 3, 6, 11}},
      {", [3, 2], [2, 2], [1, 1], true, false, none", "f32[2, 3, 6, 11]", {2, 3, 6, 11}},
      {", [3, 3], [2, 3], [0, 1], true, true, none", "f32[2, 3, 5, 7]", {2, 3, 5, 7}},
      {", [2, 2], [3, 3], [0, 0], false, false, 7", "f32[2, 3, 4, 7]", {2, 3, 4, 7}},
      {", [9, 8], [2, 5], [4, 4], false, false, none", "f32[2, 3, 6, 5]", {2, 3, 6, 5}}};
  for (const Pooling& c : cases) {
    expect_same(graph_of_op("avg_pool2d.default", {"f32[2, 3, 11, 20]"}, c.more, c.out),
                {randn({2, 3, 11, 20})}, 1e-5);
    expect_same(graph_of_op("avg_pool2d_backward.default", {c.out, "f32[2, 3, 11, 20]"}, c.more,
                            "f32[2, 3, 11, 20]"),
                {randn(c.sizes), randn({2, 3, 11, 20})}, 1e-5);
  }
}

TEST_F(InductorOps, MaximaOverWindowsAndTheirGradients) {
  // kernel, stride, padding, dilation, ceil_mode
  const Pooling cases[] = {
      {", [3, 3], [2, 2], [1, 1], [1, 1], false", "2, 3, 6, 10", {2, 3, 6, 10}},
      {", [2, 2], [2, 2], [0, 0], [1, 1], true", "2, 3, 6, 10", {2, 3, 6, 10}},
      {", [3, 2], [1, 2], [1, 0], [2, 3], false", "2, 3, 9, 9", {2, 3, 9, 9}}};
  for (const Pooling& c : cases) {
    std::string out = std::string("f32[") + c.out + "]", at = std::string("i64[") + c.out + "]";
    Tensor x = floor(randn({2, 3, 11, 20}) * 2);
    x.select(0, 0).select(0, 1).fill_(-INFINITY);
    std::string forward = graph_of_op("max_pool2d_with_indices.default", {"f32[2, 3, 11, 20]"},
                                      c.more, out + ", %p: " + at);
    forward.replace(forward.find("output %y"), 9, "output %y, %p");
    expect_same(forward, {x});
    auto whole = graph_of(forward);
    Tensor positions = run(*compiled("eager", whole), *whole, {x})[1];
    std::string backward =
        "\n  input %g: " + out + "\n  input %x: f32[2, 3, 11, 20]\n  input %p: " + at +
        "\n  %y: f32[2, 3, 11, 20] = " + "aten.max_pool2d_with_indices_backward.default(%g, %x" +
        c.more + ", %p)\n  output %y\n";
    expect_same(backward, {randn(c.sizes), x, positions}, 1e-5);
  }
}

TEST_F(InductorOps, AdaptiveWindowsMayOverlap) {
  for (auto [h, w] : {std::pair<int64_t, int64_t>{1, 1}, {4, 5}, {3, 7}, {11, 20}}) {
    std::string size = std::to_string(h) + ", " + std::to_string(w);
    std::string out = "f32[2, 3, " + size + "]";
    expect_same(
        graph_of_op("_adaptive_avg_pool2d.default", {"f32[2, 3, 11, 20]"}, ", [" + size + "]", out),
        {randn({2, 3, 11, 20})}, 1e-5);
    expect_same(graph_of_op("_adaptive_avg_pool2d_backward.default", {out, "f32[2, 3, 11, 20]"}, "",
                            "f32[2, 3, 11, 20]"),
                {randn({2, 3, h, w}), randn({2, 3, 11, 20})}, 1e-5);
  }
}

// ---- what else is a fold or a product

TEST_F(InductorOps, LossesOfImagesAreFoldsOverTheirPixels) {
  Tensor scores = randn({2, 5, 4, 6}), target = randint(0, 5, {2, 4, 6}), weight = rand({5});
  for (const char* reduction : {"0", "1", "2"}) {
    std::string r = reduction, loss = r == "0" ? "f32[2, 4, 6]" : "f32[]";
    expect_same(
        graph_of_op("nll_loss2d_forward.default", {"f32[2, 5, 4, 6]", "i64[2, 4, 6]", "f32[5]"},
                    ", " + r + ", 3", loss + ", %w: f32[]"),
        {scores, target, weight}, 1e-4);
    expect_same("\n  input %g: " + loss + R"(
  input %s: f32[2, 5, 4, 6]
  input %t: i64[2, 4, 6]
  input %w: f32[5]
  input %n: f32[]
  %y: f32[2, 5, 4, 6] = aten.nll_loss2d_backward.default(%g, %s, %t, %w, )" +
                    r + ", 3, %n)\n  output %y\n",
                {r == "0" ? randn({2, 4, 6}) : randn({}), scores, target, weight, rand({}) + 1},
                1e-5);
  }
}

TEST_F(InductorOps, ExtremesAlongADimensionComeWithTheirPosition) {
  Tensor x = floor(randn({9, 40}) * 2);
  for (const char* op : {"max.dim", "min.dim"}) {
    std::string body = graph_of_op(op, {"f32[9, 40]"}, ", 1", "f32[9], %p: i64[9]");
    body.replace(body.find("output %y"), 9, "output %y, %p");
    expect_same(body, {x});
  }
}

TEST_F(InductorOps, NormsOfEveryOrder) {
  for (const char* order : {"2", "1", "0", "3.5", "inf", "-inf"})
    expect_same(graph_of_op("linalg_vector_norm.default", {"f32[9, 40]"},
                            std::string(", ") + order + ", [1]", "f32[9]"),
                {randn({9, 40})}, 1e-4);
}

TEST_F(InductorOps, ProductsOfNarrowFloatsAreRoundedOnce) {
  Tensor a = randn({9, 40}).to(Dtype::bf16), b = randn({40, 12}).to(Dtype::bf16);
  Tensor bias = randn({12}).to(Dtype::bf16);
  expect_same(graph_of_op("mm.default", {"bf16[9, 40]", "bf16[40, 12]"}, "", "bf16[9, 12]"), {a, b},
              0.1);
  expect_same(
      graph_of_op("addmm.default", {"bf16[12]", "bf16[9, 40]", "bf16[40, 12]"}, "", "bf16[9, 12]"),
      {bias, a, b}, 0.1);
}

TEST_F(InductorOps, HeadsOfKeysMayServeSeveralHeadsOfQueries) {
  expect_same(graph_of_op("scaled_dot_product_attention.default",
                          {"f32[2, 6, 9, 8]", "f32[2, 2, 11, 8]", "f32[2, 2, 11, 8]"},
                          ", enable_gqa=true", "f32[2, 6, 9, 8]"),
              {randn({2, 6, 9, 8}), randn({2, 2, 11, 8}), randn({2, 2, 11, 8})}, 1e-5);
}

// What an ignored target does not count, it does not count where it is no number either.
TEST_F(InductorOps, LossesAreNothingForIgnoredTargetsOfNan) {
  Tensor scores = full({3, 4}, std::numeric_limits<double>::quiet_NaN(), Dtype::f32);
  scores.select(0, 1).fill_(0.5);
  Tensor targets = tensor({-100, 2, -100}).to(Dtype::i64);
  for (const char* reduction : {"0", "1", "2"}) {
    std::string result = reduction[0] == '0' ? "f32[3]" : "f32[]";
    expect_same("  input %s: f32[3, 4]\n  input %t: i64[3]\n  %y: " + result +
                    ", %w: f32[] = aten.nll_loss_forward.default(%s, %t, none, " + reduction +
                    ", -100)\n  output %y\n",
                {scores, targets});
  }
  // The mean of no target has infinite weights.
  expect_same(R"(
  input %g: f32[]
  input %s: f32[3, 4]
  input %t: i64[3]
  input %w: f32[]
  %y: f32[3, 4] = aten.nll_loss_backward.default(%g, %s, %t, none, 1, -100, %w)
  output %y
)",
              {ones({}), zeros({3, 4}), full({3}, -100, Dtype::i64), zeros({})});
}

// A score of NaN or infinity is NaN where a mask of truth hides it, as PyTorch adds minus infinity.
TEST_F(InductorOps, MasksHideNoScoreThatIsNotANumber) {
  Tensor q = randn({1, 2, 5, 8}), k = randn({1, 2, 40, 8}), v = randn({1, 2, 40, 8});
  k.select(1, 0).select(1, 3).fill_(std::numeric_limits<double>::quiet_NaN());
  k.select(1, 1).select(1, 33).fill_(std::numeric_limits<double>::infinity());
  Tensor seen = arange(40, Dtype::i64).remainder(3) != 0;
  expect_same(R"(
  input %q: f32[1, 2, 5, 8]
  input %k: f32[1, 2, 40, 8]
  input %v: f32[1, 2, 40, 8]
  input %m: bool[40]
  %y: f32[1, 2, 5, 8] = aten.scaled_dot_product_attention.default(%q, %k, %v, %m)
  %n: bool[1, 2, 5, 8] = aten.isnan.default(%y)
  output %n
)",
              {q, k, v, seen});
}

}  // namespace
}  // namespace tenon
