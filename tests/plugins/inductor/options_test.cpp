// Options of the inductor backend: each changes what it says, and nothing else changes with it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.h"
#include "plugins/inductor/graphs.h"
#include "runtime/overrides.h"

#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <fstream>
#include <limits>

namespace tenon {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class InductorOptions : public InductorTest {
 protected:
  static nlohmann::json stats_with(const std::string& graph, const std::string& options) {
    return stats_of(*compiled("inductor", graph_of(graph), options));
  }
  static Tensor result_of(const std::string& graph, const std::vector<Tensor>& inputs,
                          const std::string& options, const std::string& backend = "inductor") {
    auto parsed = graph_of(graph);
    return run(*compiled(backend, parsed, options), *parsed, inputs)[0];
  }
  /// The largest difference to the interpreter.
  static double error_of_result(const std::string& graph, const std::vector<Tensor>& inputs,
                                const std::string& options) {
    return distance(result_of(graph, inputs, options), result_of(graph, inputs, "", "eager"));
  }
};

const char* const softmax_of_rows = R"(
  input %x: f32[64, 1000]
  %y: f32[64, 1000] = aten._softmax.default(%x, 1, false)
  output %y
)";

const std::string relu_mlp = mlp("relu");

TEST_F(InductorOptions, StrictNumericsRoundEachProductAndSum) {
  const char* graph = R"(
  input %x: f32[1000]
  input %y: f32[1000]
  input %z: f32[1000]
  %p: f32[1000] = aten.mul.Tensor(%x, %y)
  %s: f32[1000] = aten.add.Tensor(%p, %z)
  output %s
)";
  std::vector<Tensor> inputs{randn({1000}), randn({1000}), randn({1000})};
  EXPECT_EQ(error_of_result(graph, inputs, "numerics = 'strict'"), 0);
  EXPECT_GT(error_of_result(graph, inputs, ""), 0);
}

TEST_F(InductorOptions, AreOverriddenByTheNumberOfACallable) {
  auto rules = config::patch({{"dynamo.debug_inductor_config_override",
                               "3,5-6:epilogue_fusion=false,simdlen=4;>9:simdlen=8"}});
  EXPECT_EQ(flag_override(4), nullptr);
  config::OptionScope scope(flag_override(6));
  EXPECT_EQ(std::get<bool>(config::get("inductor.epilogue_fusion")), false);
  config::OptionScope later(flag_override(10));
  EXPECT_EQ(std::get<int64_t>(config::get("inductor.simdlen")), 8);
}

TEST_F(InductorOptions, ThatNobodyKnowsAreRefusedByTheOverride) {
  auto rules =
      config::patch({{"dynamo.debug_inductor_config_override", ">=0:epilog_fusion=false"}});
  try {
    flag_override(0);
    FAIL() << "an option that inductor does not have was taken";
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(), HasSubstr("epilogue_fusion"));
  }
}

TEST_F(InductorOptions, NarrowValuesAreRoundedAfterEachOpWhereThatIsAsked) {
  const char* graph = R"(
  input %x: bf16[1000]
  input %y: bf16[1000]
  %s: bf16[1000] = aten.add.Tensor(%x, %y)
  %p: bf16[1000] = aten.mul.Tensor(%s, %y)
  %d: bf16[1000] = aten.sub.Tensor(%p, %x)
  output %d
)";
  std::vector<Tensor> inputs{randn({1000}).to(Dtype::bf16), randn({1000}).to(Dtype::bf16)};
  EXPECT_EQ(error_of_result(graph, inputs, "emulate_precision_casts = true"), 0);
  EXPECT_EQ(error_of_result(graph, inputs, "numerics = 'strict'"), 0);
  EXPECT_GT(error_of_result(graph, inputs, ""), 0);
}

TEST_F(InductorOptions, FastNumericsMultiplyByReciprocals) {
  std::vector<Tensor> inputs{randn({64, 1000})};
  Tensor exact = result_of(softmax_of_rows, inputs, "");
  Tensor fast = result_of(softmax_of_rows, inputs, "numerics = 'fast'");
  EXPECT_GT(distance(fast, exact), 0);
  EXPECT_LE((abs(fast - exact) / exact).max().item<double>(), 2e-7);
}

TEST_F(InductorOptions, FallbackErrorNamesTheOpsWithoutCode) {
  const char* graph = R"(
  input %x: f32[4, 4]
  %l: f32[4, 4], %i: i32[] = aten.linalg_cholesky_ex.default(%x)
  %y: f32[4, 4] = aten.relu.default(%l)
  output %y
)";
  EXPECT_EQ(stats_with(graph, "")["extern_calls"], 1);
  EXPECT_THAT(error_of([&] { stats_with(graph, "fallback = 'error'"); }),
              AllOf(HasSubstr("no code for aten.linalg_cholesky_ex.default"),
                    HasSubstr("fallback is \"error\"")));
  EXPECT_EQ(stats_with(softmax_of_rows, "fallback = 'error'")["kernels"], 1);
}

TEST_F(InductorOptions, FallbackErrorRefusesGraphsThatOnlyTheHostRuns) {
  const char* graph = R"(
  symbol u0 in [0, inf] from size(%y, 0)
  input %x: f32[4]
  %y: i64[u0, 1] = aten.nonzero.default(%x)
  output %y
)";
  EXPECT_THAT(error_of([&] { compiled("inductor", graph_of(graph), "fallback = 'error'"); }),
              HasSubstr("fallback is \"error\""));
}

TEST_F(InductorOptions, EpiloguesCanStayKernels) {
  EXPECT_EQ(stats_with(relu_mlp, "")["distinct_kernels"], 0);
  EXPECT_EQ(stats_with(relu_mlp, "epilogue_fusion = false")["distinct_kernels"], 1);
  EXPECT_LE(error_of_result(relu_mlp, mlp_inputs(), "epilogue_fusion = false"), 1e-3);
}

TEST_F(InductorOptions, WeightsCanStayAsTheyAre) {
  auto packed_bytes = [](const char* options) {
    auto graph = graph_of(relu_mlp);
    auto artifact = compiled("inductor", graph, options);
    run(*artifact, *graph, mlp_inputs());
    return stats_of(*artifact)["packed_bytes"].get<int64_t>();
  };
  EXPECT_GE(packed_bytes(""), 2 * 64 * 256 * 4);
  EXPECT_EQ(packed_bytes("weight_prepack = false"), 0);
  EXPECT_LE(error_of_result(relu_mlp, mlp_inputs(), "weight_prepack = false"), 1e-3);
}

TEST_F(InductorOptions, KernelsHoldNoMoreLoopsThanAllowed) {
  EXPECT_EQ(stats_with(softmax_of_rows, "")["kernels"], 1);
  EXPECT_GE(stats_with(softmax_of_rows, "max_fusion_size = 1")["kernels"], 3);
  EXPECT_LE(error_of_result(softmax_of_rows, {randn({64, 1000})}, "max_fusion_size = 1"), 1e-6);
}

const char* const value_of_two_readers = R"(
  input %x: f32[1000]
  %a: f32[1000] = aten.neg.default(%x)
  %b: f32[1000] = aten.sin.default(%a)
  %c: f32[1000] = aten.cos.default(%a)
  output %b, %c
)";

TEST_F(InductorOptions, WhatIsReadTwiceIsKeptFromAThresholdOn) {
  auto kernels = [](const char* options) {
    return int(stats_with(value_of_two_readers, options)["kernels"]);
  };
  EXPECT_EQ(kernels("max_fusion_size = 1"), 2);  // each negates for itself
  EXPECT_EQ(kernels("max_fusion_size = 1\nrealize_reads_threshold = 0"), 3);
}

TEST_F(InductorOptions, LongExpressionsAreCutAtAThreshold) {
  std::string graph = "  input %x0: f32[1000]\n";
  for (int i = 0; i < 8; ++i) {
    std::string from = std::to_string(i), to = std::to_string(i + 1);
    graph += "  %x" + to + ": f32[1000] = aten.neg.default(%x" + from + ")\n";
  }
  graph += "  output %x8\n";
  EXPECT_EQ(stats_with(graph, "max_fusion_size = 1")["kernels"], 1);
  EXPECT_EQ(stats_with(graph, "max_fusion_size = 1\nrealize_opcount_threshold = 2")["kernels"], 4);
}

TEST_F(InductorOptions, ReductionsToFewElementsCanBeSplit) {
  const char* graph = R"(
  input %x: f32[1, 100000]
  %sum: f32[1] = aten.sum.dim_IntList(%x, [1])
  %max: f32[] = aten.amax.default(%x)
  output %sum, %max
)";
  const char* split = "split_reductions = true";
  EXPECT_LT(int(stats_with(graph, "")["kernels"]), int(stats_with(graph, split)["kernels"]));
  auto parsed = graph_of(graph);
  std::vector<Tensor> inputs{randn({1, 100000})};
  std::vector<Tensor> expected = run(*compiled("eager", parsed, ""), *parsed, inputs);
  std::vector<Tensor> found = run(*compiled("inductor", parsed, split), *parsed, inputs);
  EXPECT_LT(distance(found[0], expected[0]), 1e-3);
  EXPECT_EQ(distance(found[1], expected[1]), 0);
}

std::string powers_of_a_matrix() {
  std::string graph = "  input %x0: f32[100, 100]\n";
  for (int i = 0; i < 10; ++i) {
    std::string from = std::to_string(i), to = std::to_string(i + 1);
    graph += "  %x" + to + ": f32[100, 100] = aten.mm.default(%x" + from + ", %x" + from + ")\n";
  }
  return graph + "  output %x10\n";
}

TEST_F(InductorOptions, MemoryIsUsedOnceWhereReuseIsOff) {
  std::string graph = powers_of_a_matrix();
  std::vector<Tensor> inputs{randn({100, 100}) * 0.1};
  for (const char* options : {"allow_buffer_reuse = false", "memory_planning = false"}) {
    nlohmann::json stats = stats_with(graph, options);
    EXPECT_EQ(stats["planned_bytes"], stats["naive_bytes"]) << options;
    EXPECT_EQ(distance(result_of(graph, inputs, options), result_of(graph, inputs, "")), 0);
  }
}

TEST_F(InductorOptions, NarrowFloatsNeedNoInstructionsForThem) {
  std::string graph = R"(
  input %x: f32[70]
  %y: bf16[70] = aten._to_copy.default(%x, dtype=bf16)
  output %y
)";
  Tensor x = randn({70});
  int64_t n = 0;
  for (double special : {1.00390625, 1.01171875, -1.00390625, 3.4e38, double(INFINITY), 1e-40, 0.0})
    x.select(0, n++).fill_(special);  // the first ones are ties
  Tensor expected = x.to(Dtype::bf16);
  EXPECT_TRUE(equal(result_of(graph, {x}, "cpu = 'x86-64-v3'"), expected));
  x.fill_(NAN);
  Tensor found = result_of(graph, {x}, "cpu = 'x86-64-v3'");
  EXPECT_TRUE(isnan(found).all().item<bool>());
}

/// A product, two functions of its elements, and another product.
std::string functions_between_products(const char* weights) {
  return std::string("  input %x: f32[500, 100]\n  input %w: f32[100, 100]") + weights + R"(
  %a: f32[500, 100] = aten.mm.default(%x, %w)
  %b: f32[500, 100] = aten.sin.default(%a)
  %c: f32[500, 100] = aten.cos.default(%b)
  %y: f32[500, 100] = aten.mm.default(%c, %w)
  output %y
)";
}

TEST_F(InductorOptions, WhatIsMadeOfATensorTakesItsPlace) {
  std::vector<Tensor> inputs{randn({500, 100}), randn({100, 100}) * 0.1};
  for (const char* weights : {"", " parameter static_address"})  // the latter is one region
    for (std::string rest : {"", "\nmax_fusion_size = 1", "\nverify = true"}) {
      std::string graph = functions_between_products(weights);
      int64_t tensor = 500 * 100 * 4;
      EXPECT_LT(stats_with(graph, rest)["planned_bytes"], tensor + 256);
      EXPECT_GE(stats_with(graph, "inplace_buffers = false" + rest)["planned_bytes"], 2 * tensor);
      EXPECT_EQ(distance(result_of(graph, inputs, rest),
                         result_of(graph, inputs, "inplace_buffers = false" + rest)),
                0);
    }
}

TEST_F(InductorOptions, ATensorThatIsReadAgainKeepsItsPlace) {
  const char* graph = R"(
  input %x: f32[500, 100]
  input %w: f32[100, 100] parameter static_address
  input %v: f32[500, 500] parameter static_address
  %a: f32[500, 100] = aten.mm.default(%x, %w)
  %b: f32[500, 100] = aten.sin.default(%a)
  %c: f32[500, 100] = aten.mm.default(%b, %w)
  %d: f32[500, 100] = aten.mm.default(%v, %a)
  %s: f32[500, 100] = aten.flip.default(%d, [0])
  %t: f32[500, 100] = aten.add.Tensor(%s, %d)
  %y: f32[500, 100] = aten.mm.default(%t, %w)
  output %y, %c
)";
  std::vector<Tensor> inputs{randn({500, 100}), randn({100, 100}) * 0.1, randn({500, 500}) * 0.1};
  EXPECT_LE(error_of_result(graph, inputs, ""), 1e-4);
  EXPECT_LE(error_of_result(graph, inputs, "max_fusion_size = 1"), 1e-4);
}

TEST_F(InductorOptions, ResultsGoPastTheCachesUnchanged) {
  auto graph = [](const std::string& sizes, const std::string& strides, const char* dtype) {
    std::string type = dtype + ("[" + sizes + "]");
    return "  input %x: " + type + strides + "\n  input %y: " + type + "\n  %p: " + type +
           " = aten.mul.Tensor(%x, %y)\n  %r: " + type + " = aten.relu.default(%p)\n  %s: " + type +
           " = aten.neg.default(%p)\n  output %r, %s\n";
  };
  EXPECT_EQ(stats_with(graph("640, 100", "", "f32"), "nontemporal = 'on'")["streamed"], 2);
  EXPECT_EQ(stats_with(graph("640, 100", "", "f32"), "nontemporal = 'off'")["streamed"], 0);
  EXPECT_EQ(stats_with(graph("640, 100", "", "f32"), "")["streamed"], 0);  // small
  for (const char* dtype : {"f32", "f64", "bf16", "i32"})
    for (std::vector<int64_t> sizes : {std::vector<int64_t>{64, 100}, {7, 13}, {3, 1000}, {1, 5}}) {
      std::string text = std::to_string(sizes[0]) + ", " + std::to_string(sizes[1]);
      Dtype type = *parse_dtype(dtype);
      for (bool is_transposed : {false, true}) {
        std::vector<Tensor> inputs{(randn(sizes) * 5).to(type), (randn(sizes) * 5).to(type)};
        std::string strides;
        if (is_transposed) {
          strides = " strides [1, " + std::to_string(sizes[0]) + "]";
          inputs[0] = inputs[0].t().contiguous().t();
        }
        std::string program = graph(text, strides, dtype);
        EXPECT_EQ(distance(result_of(program, inputs, "nontemporal = 'on'"),
                           result_of(program, inputs, "nontemporal = 'off'")),
                  0)
            << program;
      }
    }
}

TEST_F(InductorOptions, LoopsThatOnlyReadTheSameAreJoinedUpToANumber) {
  const char* graph = R"(
  input %x: f32[64, 1000]
  %s: f32[64] = aten.sum.dim_IntList(%x, [1])
  %m: f32[64] = aten.amax.default(%x, [1])
  output %s, %m
)";
  EXPECT_EQ(stats_with(graph, "")["kernels"], 1);
  EXPECT_EQ(stats_with(graph, "max_horizontal_fusion_size = 1")["kernels"], 2);
}

TEST_F(InductorOptions, SmallChunksAndLargeOnesGiveTheSame) {
  std::vector<Tensor> inputs{randn({64, 1000})};
  Tensor usual = result_of(softmax_of_rows, inputs, "");
  for (const char* options : {"min_chunk_size = 1", "min_chunk_size = 1073741824"})
    EXPECT_EQ(distance(result_of(softmax_of_rows, inputs, options), usual), 0) << options;
}

const char* const layers_of_two_kinds = R"(
  input %x: f32[1, 32, 20, 20]
  input %w: f32[32, 32, 3, 3] parameter static_address
  input %m: f32[32, 400]
  %y: f32[1, 32, 20, 20] = aten.convolution.default(%x, %w, none, [1, 1], [1, 1], [1, 1], false, [0, 0], 1)
  %v: f32[400, 32] = aten.view.default(%m, [400, 32])
  %p: f32[32, 32] = aten.mm.default(%m, %v)
  output %y, %p
)";

TEST_F(InductorOptions, MaxAutotuneTriesTheWaysOfFixedSizes) {
  EXPECT_EQ(stats_with(layers_of_two_kinds, "")["tuned"], 0);
  EXPECT_EQ(stats_with(layers_of_two_kinds, "max_autotune = true")["tuned"], 2);
  EXPECT_EQ(stats_with(layers_of_two_kinds, "max_autotune = true\ndeterministic = true")["tuned"],
            0);
  auto graph = graph_of(layers_of_two_kinds);
  std::vector<Tensor> inputs{randn({1, 32, 20, 20}), randn({32, 32, 3, 3}), randn({32, 400})};
  EXPECT_LE(difference(graph, *compiled("inductor", graph, "max_autotune = true"), inputs), 2e-3);
}

TEST_F(InductorOptions, ModesOfPyTorchAreKnown) {
  for (const char* mode :
       {"default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs", "lite"}) {
    auto body = [](const Tensor& x) { return relu(x.matmul(x)) + 1; };
    auto f = compile(body, Options{.backend = "inductor", .mode = mode});
    Tensor x = randn({50, 50});
    EXPECT_LE(distance(f(x), body(x)), 1e-4) << mode;
  }
}

TEST_F(InductorOptions, ImagesCanStayContiguous) {
  auto graph = graph_of(layers_of_two_kinds);
  std::vector<Tensor> inputs{randn({1, 32, 20, 20}), randn({32, 32, 3, 3}), randn({32, 400})};
  auto artifact = compiled("inductor", graph, "layout_optimization = false");
  EXPECT_LE(difference(graph, *artifact, inputs), 2e-3);
  EXPECT_NE(artifact->describe(TN_DESC_GRAPH),
            compiled("inductor", graph)->describe(TN_DESC_GRAPH));
}

TEST_F(InductorOptions, VectorsAreAsWideAsAsked) {
  std::vector<Tensor> inputs{randn({64, 1000})};
  EXPECT_EQ(stats_with(softmax_of_rows, "simdlen = 128")["vector_bits"], 128);
  EXPECT_LE(error_of_result(softmax_of_rows, inputs, "simdlen = 128"), 1e-6);
  EXPECT_THAT(error_of([] { stats_with(softmax_of_rows, "simdlen = 100"); }),
              HasSubstr("option simdlen is 100; expected 0 (the widest), 128, 256 or 512"));
}

TEST_F(InductorOptions, CodeIsMadeForOlderProcessorsToo) {
  nlohmann::json stats = stats_with(softmax_of_rows, "cpu = 'x86-64'");
  EXPECT_EQ(stats["cpu"], "x86-64");
  EXPECT_EQ(stats["vector_bits"], 128);
  EXPECT_EQ(stats["kernel_cache_hits"], 0);
  EXPECT_LE(error_of_result(softmax_of_rows, {randn({64, 1000})}, "cpu = 'x86-64'"), 1e-6);
}

TEST_F(InductorOptions, OlderProcessorsRoundNarrowFloatsAlike) {
  const char* graph = R"(
  input %x: f32[1000]
  %y: bf16[1000] = aten._to_copy.default(%x, dtype=bf16)
  output %y
)";
  float most = std::numeric_limits<float>::max(), infinity = std::numeric_limits<float>::infinity();
  // Halfway to an even and to an odd neighbour, beyond the largest, denormal.
  std::vector<float> edges{
      1 + 0x1p-8f, 1 + 3 * 0x1p-8f, -1 - 0x1p-8f, 1 + 0x1.02p-8f, most, -most, infinity, -infinity,
      0.0f,        -0.0f,           0x1.08p-130f, 0x1p-140f,      NAN,  -NAN};
  Tensor x = randn({1000});
  x.slice(0, 0, int64_t(edges.size())).copy_(tensor(edges, {int64_t(edges.size())}));
  for (const char* cpu : {"cpu = 'x86-64'", "cpu = 'x86-64-v3'"}) {
    auto found = result_of(graph, {x}, cpu).to(Dtype::f32).to_vector<float>();
    auto expected = result_of(graph, {x}, "", "eager").to(Dtype::f32).to_vector<float>();
    for (size_t i = 0; i < found.size(); ++i)
      if (std::isnan(expected[i]))
        EXPECT_TRUE(std::isnan(found[i])) << cpu << " " << i;
      else
        EXPECT_EQ(found[i], expected[i]) << cpu << " " << i;
  }
}

TEST_F(InductorOptions, ProcessorsThatThisOneIsNotAreRefused) {
  EXPECT_THAT(error_of([] { stats_with(softmax_of_rows, "cpu = 'pentium-pro-max'"); }),
              HasSubstr("LLVM knows no processor 'pentium-pro-max'"));
  // One has matrix tiles, the other instructions of another maker: no machine has both.
  std::string errors = error_of([] { stats_with(softmax_of_rows, "cpu = 'graniterapids'"); }) +
                       error_of([] { stats_with(softmax_of_rows, "cpu = 'znver4'"); });
  EXPECT_THAT(errors, HasSubstr("which this machine's"));
}

TEST_F(InductorOptions, EffortDecidesTheCode) {
  std::vector<Tensor> inputs{randn({64, 1000})};
  auto usual = compiled("inductor", graph_of(softmax_of_rows));
  for (const char* options : {"compile_effort = 0", "compile_effort = 2"}) {
    nlohmann::json stats = stats_with(softmax_of_rows, options);
    EXPECT_EQ(stats["kernel_cache_hits"], 0) << options;
    EXPECT_LE(error_of_result(softmax_of_rows, inputs, options), 1e-6);
  }
  EXPECT_EQ(stats_with(softmax_of_rows, "")["kernel_cache_hits"], 1);
}

TEST_F(InductorOptions, VerifyingFindsNothingInGraphsThatAreSound) {
  for (const std::string& graph : {std::string(softmax_of_rows), std::string(relu_mlp),
                                   std::string(value_of_two_readers), powers_of_a_matrix()})
    EXPECT_EQ(error_of([&] { stats_with(graph, "verify = true"); }), "no error");
}

TEST_F(InductorOptions, NodesOfAKernelWithoutCodeRunInTheHost) {
  const char* graph = R"(
  input %x: f32[64, 100]
  input %w: f32[100, 100]
  %a: f32[64, 100] = aten.exp.default(%x)
  %n: f32[64, 100] = aten.neg.default(%a)
  %p: f32[64, 100] = aten.mm.default(%n, %w)
  %t: f32[100, 64] = aten.t.default(%p)
  %s: f32[100, 64] = aten._softmax.default(%t, 1, false)
  output %s, %n
)";
  std::vector<Tensor> inputs{randn({64, 100}), randn({100, 100}) * 0.1};
  EXPECT_EQ(stats_with(graph, "")["failed_kernels"], 0);
  nlohmann::json stats = stats_with(graph, "fail_kernels = 's'");
  EXPECT_EQ(stats["failed_kernels"], 1);
  EXPECT_EQ(stats["extern_ops"], nlohmann::json({"aten._softmax.default"}));
  EXPECT_GE(stats["kernels"], 1);
  EXPECT_LE(error_of_result(graph, inputs, "fail_kernels = 's'"), 1e-6);
  EXPECT_LE(error_of_result(graph, inputs, "fail_kernels = '*'"), 1e-6);
}

TEST_F(InductorOptions, CodeCanBeRead) {
  std::string code = compiled("inductor", graph_of(softmax_of_rows))->describe(TN_DESC_ASM);
  EXPECT_THAT(code, AllOf(HasSubstr(":\n     0\t"), HasSubstr("\tret\n")));
  EXPECT_EQ(code.find("no instruction"), std::string::npos);
}

TEST_F(InductorOptions, PerfIsToldWhereKernelsAre) {
  std::string path = "/tmp/perf-" + std::to_string(getpid()) + ".map";
  std::remove(path.c_str());
  auto artifact = compiled("inductor", graph_of(softmax_of_rows), "perf = true");
  std::ifstream file(path);
  std::string address, size, name, more;
  file >> address >> size >> name;
  EXPECT_GT(std::stoull(address, nullptr, 16), 0u);
  EXPECT_GT(std::stoull(size, nullptr, 16), 64u);
  EXPECT_FALSE(name.empty());
  EXPECT_FALSE(file >> more);  // one kernel
  std::remove(path.c_str());
}

TEST_F(InductorOptions, UnknownOnesComeWithTheNearest) {
  EXPECT_THAT(error_of([] { stats_with(softmax_of_rows, "simdlem = 1"); }), HasSubstr("simdlen"));
  EXPECT_THAT(error_of([] { stats_with(softmax_of_rows, "compile_effort = 3"); }),
              HasSubstr("compile_effort"));
}

}  // namespace
}  // namespace tenon
