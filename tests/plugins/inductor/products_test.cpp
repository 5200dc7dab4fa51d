// Products in the dtypes that the backend multiplies: beside the same graph in double precision,
// with no op left to the host.
#include <gtest/gtest.h>

#include "plugins/inductor/graphs.h"

namespace tenon {
namespace {

class InductorProducts : public InductorTest {
 protected:
  void SetUp() override {
    InductorTest::SetUp();
    manual_seed(7);
  }
  static std::vector<Tensor> cast(const std::vector<Tensor>& inputs, Dtype dtype) {
    std::vector<Tensor> out;
    for (const Tensor& t : inputs) out.push_back(t.to(dtype));
    return out;
  }
  /// The largest difference from the results in double precision, as a part of the largest result.
  static double error_of(const std::string& body, Dtype dtype, const std::vector<Tensor>& given,
                         const std::vector<int64_t>& symbols = {},
                         const std::string& options = "verify = true") {
    std::vector<Tensor> inputs = cast(given, dtype);
    auto graph = graph_in(dtype, body), exact = graph_in(Dtype::f64, body);
    auto artifact = compiled("inductor", graph, options);
    EXPECT_EQ(stats_of(*artifact)["extern_ops"].dump(), "[]") << body;
    auto expected = run(*compiled("eager", exact), *exact, cast(inputs, Dtype::f64), symbols);
    auto found = run(*artifact, *graph, inputs, symbols);
    double most = 0;
    for (size_t i = 0; i < found.size(); ++i) {
      EXPECT_EQ(found[i].dtype(), dtype);
      if (found[i].numel() == 0) continue;
      double largest = abs(expected[i]).max().item<double>();
      most = std::max(most, distance(found[i], expected[i]) / std::max(largest, 1e-30));
    }
    return most;
  }
  /// Whether this processor has instructions for it.
  static bool multiplies_bf16() { return __builtin_cpu_supports("avx512bf16"); }
  static constexpr double bf16_unit = 1.0 / 256;  // between neighbouring numbers
  static void expect_close(const std::string& body, const std::vector<Tensor>& inputs,
                           const std::vector<int64_t>& symbols = {}) {
    EXPECT_LE(error_of(body, Dtype::bf16, inputs, symbols), 1.5 * bf16_unit) << body;
    EXPECT_LE(error_of(body, Dtype::f32, inputs, symbols), 1e-5) << body;
    EXPECT_LE(error_of(body, Dtype::f64, inputs, symbols), 1e-13) << body;
  }
};

/// A matrix as it is, or one that repeats a smaller one.
struct RepeatedSide {
  std::vector<int64_t> given;
  const char *given_text, *strides;
};

// The gradient behind a sum of rows is one row in the place of all.
TEST_F(InductorProducts, OfRepeatedRowsAndColumns) {
  const RepeatedSide lefts[] = {{{16, 3}, "[16, 3]", "[3, 1]"},
                                {{16, 1}, "[16, 1]", "[1, 0]"},
                                {{1, 3}, "[1, 3]", "[0, 1]"},
                                {{1, 1}, "[1, 1]", "[0, 0]"}};
  const RepeatedSide rights[] = {{{3, 16}, "[3, 16]", "[16, 1]"},
                                 {{3, 1}, "[3, 1]", "[1, 0]"},
                                 {{1, 16}, "[1, 16]", "[0, 1]"},
                                 {{1, 1}, "[1, 1]", "[0, 0]"}};
  for (const RepeatedSide& l : lefts)
    for (const RepeatedSide& r : rights)
      expect_close(std::string("  input %x: $") + l.given_text + "\n  input %y: $" + r.given_text +
                       "\n  %a: $[16, 3] strides " + l.strides +
                       " alias 1 = aten.expand.default(%x, [16, 3])\n  %b: $[3, 16] strides " +
                       r.strides + R"( alias 2 = aten.expand.default(%y, [3, 16])
  %z: $[16, 16] = aten.mm.default(%a, %b)
  output %z
)",
                   {randn(l.given), randn(r.given)});
}

// The first function is a part of the product, which the second one must not become too.
TEST_F(InductorProducts, MayBePartlyWrittenBetweenTwoFunctions) {
  for (const char* second : {"relu", "hardsigmoid"})
    expect_close("  input %x: $[3, 16]\n  input %w: $[16, 24]\n  input %t: $[3, 4]\n" +
                     std::string(R"(
  %y: $[3, 24] = aten.mm.default(%x, %w)
  %r: $[3, 24] = aten.relu.default(%y)
  %a: $[3, 24] = aten.slice_scatter.default(%r, %t, 1, 0, 4)
  %b: $[3, 24] = aten.)") +
                     second + ".default(%a)\n  output %b\n",
                 {randn({3, 16}), randn({16, 24}), randn({3, 4})});
}

TEST_F(InductorProducts, TakeAResidualTwice) {
  expect_close(R"(
  input %x: $[3, 16]
  input %w: $[16, 24]
  input %t: $[3, 24]
  %z: $[3, 24] = aten.full.default([3, 24], 0, dtype=$, device=cpu)
  %y: $[3, 24] = aten.mm.default(%x, %w)
  %a: $[3, 24] = aten.add.Tensor(%t, %y)
  %s: $[3, 24] = aten.slice_scatter.default(%z, %a, 1, 0, 24)
  %b: $[3, 24] = aten.add.Tensor(%t, %s)
  output %b
)",
               {randn({3, 16}), randn({16, 24}), randn({3, 24})});
}

TEST_F(InductorProducts, OfTwoMatrices) {
  for (int m : {1, 7, 40, 200})
    for (int k : {1, 33, 800}) {
      std::string rows = std::to_string(m), inner = std::to_string(k);
      expect_close("  input %x: $[" + rows + ", " + inner + "]\n  input %y: $[" + inner +
                       ", 70]\n  %z: $[" + rows + ", 70] = aten.mm.default(%x, %y)\n  output %z\n",
                   {randn({m, k}), randn({k, 70})});
    }
}

TEST_F(InductorProducts, OfTransposedAndSlicedMatrices) {
  expect_close(R"(
  input %x: $[37, 50]
  input %y: $[64, 37]
  input %s: $[40, 90]
  %t: $[50, 37] = aten.t.default(%x)
  %u: $[37, 64] = aten.t.default(%y)
  %a: $[50, 64] = aten.mm.default(%t, %u)
  %v: $[40, 37] = aten.slice.Tensor(%s, 1, 3, 77, 2)
  %b: $[40, 64] = aten.mm.default(%v, %u)
  %w: $[40, 50] = aten.slice.Tensor(%s, 1, 5, 55)
  %c: $[40, 37] = aten.mm.default(%w, %t)
  output %a, %b, %c
)",
               {randn({37, 50}), randn({64, 37}), randn({40, 90})});
}

TEST_F(InductorProducts, OfBatches) {
  expect_close(R"(
  input %x: $[9, 20, 15]
  input %y: $[9, 15, 64]
  input %z: $[64]
  %p: $[9, 20, 64] = aten.bmm.default(%x, %y)
  %t: $[9, 15, 20] = aten.transpose.int(%x, 1, 2)
  %q: $[9, 15, 64] = aten.bmm.default(%t, %p)
  %r: $[9, 20, 64] = aten.baddbmm.default(%z, %x, %y, beta=0.5, alpha=-2)
  output %p, %q, %r
)",
               {randn({9, 20, 15}), randn({9, 15, 64}), randn({64})});
}

TEST_F(InductorProducts, WithWhatIsAdded) {
  expect_close(R"(
  input %b: $[48]
  input %c: $[30, 48]
  input %x: $[30, 77]
  input %w: $[77, 48] parameter static_address
  %p: $[30, 48] = aten.addmm.default(%b, %x, %w)
  %q: $[30, 48] = aten.addmm.default(%c, %x, %w)
  %r: $[30, 48] = aten.addmm.default(%c, %x, %w, beta=0, alpha=3)
  %s: $[30, 48] = aten.addmm.default(%b, %x, %w, beta=2.5)
  output %p, %q, %r, %s
)",
               {randn({48}), randn({30, 48}), randn({30, 77}), randn({77, 48})});
}

TEST_F(InductorProducts, OfAMatrixAndAVector) {
  std::string body = R"(
  input %x: $[50, 801]
  input %v: $[801, 1]
  input %w: $[50, 1]
  input %b: $[1]
  %p: $[50, 1] = aten.mm.default(%x, %v)
  %q: $[50, 1] = aten.addmm.default(%b, %x, %v)
  %t: $[801, 50] = aten.t.default(%x)
  %r: $[801, 1] = aten.addmm.default(%b, %t, %w, beta=2, alpha=0.5)
  output %p, %q, %r
)";
  expect_close(body, {randn({50, 801}), randn({801, 1}), randn({50, 1}), randn({1})});
  EXPECT_EQ(stats_of(*compiled("inductor", graph_in(Dtype::f32, body)))["gemm"], 0);
}

TEST_F(InductorProducts, OfSizesKnownAtTheCall) {
  std::string body = R"(
  symbol s0 in [0, inf] hint 5 from size(%x, 0)
  symbol s1 in [0, inf] hint 8 from size(%x, 1)
  input %x: $[s0, s1]
  input %w: $[40, s1] parameter static_address
  %t: $[s1, 40] = aten.t.default(%w)
  %y: $[s0, 40] = aten.mm.default(%x, %t)
  %u: $[s1, s0] = aten.t.default(%x)
  %g: $[s1, 40] = aten.mm.default(%u, %y)
  output %y, %g
)";
  for (auto [m, k] :
       {std::pair{5, 8}, std::pair{1, 1}, std::pair{130, 771}, std::pair{0, 3}, std::pair{4, 0}})
    expect_close(body, {randn({m, k}), randn({40, k})}, {m, k});
}

constexpr const char* layers = R"(
  input %x: $[96, 64]
  input %w1: $[64, 256] parameter static_address
  input %b1: $[256] parameter static_address
  input %w2: $[256, 64] parameter static_address
  input %b2: $[64] parameter static_address
  %h: $[96, 256] = aten.addmm.default(%b1, %x, %w1)
  %g: $[96, 256] = aten.ACTIVATION.default(%h)
  %y: $[96, 64] = aten.addmm.default(%b2, %g, %w2)
  %z: $[96, 64] = aten.add.Tensor(%y, %x)
  output %z
)";
std::string layers_with(const std::string& activation) {
  std::string out = layers;
  return out.replace(out.find("ACTIVATION"), 10, activation);
}

TEST_F(InductorProducts, HaveTheSameEpiloguesAndRegionsInEachDtype) {
  for (const char* activation : {"relu", "hardswish", "gelu"}) {
    std::string body = layers_with(activation);
    expect_close(body, mlp_inputs(96));
    auto facts = [&](Dtype dtype) {
      auto stats = stats_of(*compiled("inductor", graph_in(dtype, body)));
      int kernels =
          int(stats["kernels"]) - int(stats["prepacked_items"]);  // the bias is made f32 once
      return nlohmann::json{stats["gemm"], kernels, stats["epilogues"], stats["regions"]};
    };
    EXPECT_EQ(facts(Dtype::f32), facts(Dtype::f64)) << activation;
    if (!multiplies_bf16()) continue;
    EXPECT_EQ(facts(Dtype::f32), facts(Dtype::bf16)) << activation;
  }
}

TEST_F(InductorProducts, OfBf16RunOnProcessorsWithoutIt) {
  for (const char* cpu : {"cpu = 'x86-64'", "cpu = 'x86-64-v3'"})
    EXPECT_LE(error_of(layers_with("relu"), Dtype::bf16, mlp_inputs(96), {}, cpu), 1.5 * bf16_unit)
        << cpu;
}

TEST_F(InductorProducts, SayInWhichDtypeTheyMultiply) {
  std::string body = layers_with("relu");
  auto says = [&](Dtype dtype, const char* what, const char* options) {
    auto artifact = compiled("inductor", graph_in(dtype, body), options);
    return artifact->describe(TN_DESC_GRAPH).find(what) != std::string::npos;
  };
  EXPECT_TRUE(says(Dtype::f64, " in f64\n", ""));
  EXPECT_EQ(says(Dtype::bf16, " in bf16\n", ""), multiplies_bf16());
  EXPECT_FALSE(says(Dtype::bf16, " in bf16\n", "numerics = 'strict'"));
  EXPECT_FALSE(says(Dtype::bf16, " in bf16\n", "cpu = 'x86-64-v3'"));
}

TEST_F(InductorProducts, OfIntegersWrapAround) {
  std::string body = R"(
  symbol s0 in [0, inf] hint 5 from size(%x, 2)
  input %x: $[3, 17, s0]
  input %y: $[3, s0, 33]
  input %z: $[33]
  %a: $[17, s0] = aten.select.int(%x, 0, 1)
  %b: $[s0, 33] = aten.select.int(%y, 0, 2)
  %p: $[17, 33] = aten.mm.default(%a, %b)
  %q: $[3, 17, 33] = aten.bmm.default(%x, %y)
  %r: $[17, 33] = aten.addmm.default(%z, %a, %b, beta=3, alpha=-2)
  %s: $[3, 17, 33] = aten.baddbmm.default(%z, %x, %y, beta=0)
  output %p, %q, %r, %s
)";
  // Numbers of all bits of the dtype.
  auto numbers = [](std::vector<int64_t> sizes, Dtype dtype) {
    Tensor high = randint(0, 1 << 30, sizes), low = randint(0, 1 << 30, sizes);
    return (high * (int64_t{1} << 34) + low).to(dtype);
  };
  for (Dtype dtype : {Dtype::i64, Dtype::i32, Dtype::i16, Dtype::i8, Dtype::u8})
    for (int64_t k : {40, 1, 0}) {
      auto graph = graph_in(dtype, body);
      std::vector<Tensor> inputs{numbers({3, 17, k}, dtype), numbers({3, k, 33}, dtype),
                                 numbers({33}, dtype)};
      auto artifact = compiled("inductor", graph, "verify = true");
      EXPECT_EQ(stats_of(*artifact)["extern_ops"].dump(), "[]") << name_of(dtype);
      auto expected = run(*compiled("eager", graph), *graph, inputs, {k});
      auto found = run(*artifact, *graph, inputs, {k});
      for (size_t i = 0; i < found.size(); ++i) {
        EXPECT_EQ(found[i].dtype(), dtype);
        EXPECT_EQ(found[i].to(Dtype::i64).to_vector<int64_t>(),
                  expected[i].to(Dtype::i64).to_vector<int64_t>())
            << name_of(dtype) << ", output " << i << ", k " << k;
      }
    }
}

TEST_F(InductorProducts, RunInRegionsWithALeftSideThatLiesByColumns) {
  std::string body = layers_with("relu");
  body.replace(body.find("$[96, 64]"), 9, "$[64, 96]");
  body.insert(body.find("  %h"), "  %u: $[96, 64] = aten.t.default(%x)\n");
  body.replace(body.find("%b1, %x"), 7, "%b1, %u");
  body.replace(body.find("%y, %x"), 6, "%y, %u");
  std::vector<Tensor> inputs = mlp_inputs(96);
  inputs[0] = randn({64, 96});
  expect_close(body, inputs);
}

TEST_F(InductorProducts, AreSavedAndLoadedWithTheSameBits) {
  std::string body = layers_with("relu");
  for (Dtype dtype : {Dtype::f32, Dtype::bf16}) {
    CompileRequest request;
    request.graph = graph_in(dtype, body);
    auto artifact = compiled("inductor", graph_in(dtype, body));
    auto loaded = load_with_backend(artifact->save(), request);
    std::vector<Tensor> inputs = cast(mlp_inputs(96), dtype);
    EXPECT_EQ(distance(run(*loaded, *request.graph, inputs)[0],
                       run(*artifact, *request.graph, inputs)[0]),
              0)
        << name_of(dtype);
  }
}

TEST_F(InductorProducts, AreRoundedAfterEachOpWhereThatIsAskedFor) {
  std::string body = layers_with("relu");
  std::vector<Tensor> inputs = cast(mlp_inputs(96), Dtype::bf16);
  auto graph = graph_in(Dtype::bf16, body);
  Tensor found =
      run(*compiled("inductor", graph, "emulate_precision_casts = true"), *graph, inputs)[0];
  auto [x, w1, b1, w2, b2] = std::tuple{inputs[0], inputs[1], inputs[2], inputs[3], inputs[4]};
  auto rounded = [](const Tensor& t) { return t.to(Dtype::bf16).to(Dtype::f64); };
  auto wide = [](const Tensor& t) { return t.to(Dtype::f64); };
  Tensor h = relu(rounded(wide(x).mm(wide(w1)) + wide(b1)));
  Tensor y = rounded(rounded(h.mm(wide(w2)) + wide(b2)) + wide(x));
  // Sums in f32 now and then round to the other neighbour.
  Tensor differs = ne(wide(found), y).to(Dtype::f64);
  EXPECT_LE(differs.mean().item<double>(), 0.02);
}

TEST_F(InductorProducts, KeepDenormalNumbersWhereNumericsAreStrict) {
  auto graph = graph_of(
      "  input %x: bf16[3, 2]\n  input %y: bf16[2, 16]\n  %z: bf16[3, 16] = aten.mm.default(%x, "
      "%y)\n  output %z\n");
  std::vector<Tensor> inputs{full({3, 2}, 0x1p-130, Dtype::bf16),
                             full({2, 16}, 0x1p100, Dtype::bf16)};
  Tensor strict = run(*compiled("inductor", graph, "numerics = 'strict'"), *graph, inputs)[0];
  EXPECT_EQ(strict.max().to(Dtype::f64).item<double>(), 0x1p-29);
}

TEST_F(InductorProducts, OfANormBehindThemKeepTheirDtype) {
  std::string body = R"(
  input %x: $[50, 32]
  input %w: $[32, 24] parameter static_address
  input %s: $[24] parameter static_address
  input %b: $[24] parameter static_address
  input %m: $[24] parameter static_address
  input %v: $[24] parameter static_address
  %y: $[50, 24] = aten.mm.default(%x, %w)
  %n: $[50, 24], %i: $[0], %j: $[0] = aten._native_batch_norm_legit_no_training.default(%y, %s, %b, %m, %v, 0.1, 1e-05)
  output %n
)";
  expect_close(body, {randn({50, 32}), randn({32, 24}), randn({24}), randn({24}), randn({24}),
                      rand({24}) + 1});
}

}  // namespace
}  // namespace tenon
