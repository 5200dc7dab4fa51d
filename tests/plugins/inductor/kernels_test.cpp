// What becomes of graphs in the inductor backend: how many kernels, what they share, what happens
// when parameters change, sizes change, or an index is wrong.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.h"
#include "plugins/inductor/graphs.h"

#include <thread>
#include <variant>

namespace tenon {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::Le;

/// Words and numbers, one after the other.
std::string text_of(std::initializer_list<std::variant<const char*, int>> parts) {
  std::string out;
  for (const auto& part : parts)
    out += part.index() ? std::to_string(std::get<1>(part)) : std::get<0>(part);
  return out;
}

using Inductor = InductorTest;

TEST_F(Inductor, ASoftmaxIsOneKernel) {
  auto graph = graph_of(R"(
  input %x: f32[64, 100]
  %y: f32[64, 100] = aten._softmax.default(%x, 1, false)
  output %y
)");
  auto artifact = compiled("inductor", graph);
  EXPECT_EQ(stats_of(*artifact)["kernels"], 1);
  EXPECT_LE(difference(graph, *artifact, {randn({64, 100})}), 1e-6);
}

TEST_F(Inductor, ALayerNormIsOneKernel) {
  auto graph = graph_of(R"(
  input %x: f32[32, 48]
  input %w: f32[48]
  input %b: f32[48]
  %y: f32[32, 48], %m: f32[32, 1], %r: f32[32, 1] = aten.native_layer_norm.default(%x, [48], %w, %b, 1e-05)
  output %y
)");
  auto artifact = compiled("inductor", graph);
  EXPECT_EQ(stats_of(*artifact)["kernels"], 1);
  EXPECT_LE(difference(graph, *artifact, {randn({32, 48}), randn({48}), randn({48})}), 1e-5);
}

TEST_F(Inductor, TheActivationOfALayerIsPartOfItsProduct) {
  auto graph = graph_of(mlp("gelu"));
  auto artifact = compiled("inductor", graph);
  EXPECT_EQ(stats_of(*artifact)["gemm"], 2);
  EXPECT_EQ(stats_of(*artifact)["kernels"], 0);
  EXPECT_LE(difference(graph, *artifact, mlp_inputs()), 1e-3);
}

TEST_F(Inductor, AProductTakesAnyNumberOfResiduals) {
  for (int n : {1, 4, 5, 8, 9, 20}) {
    std::string graph = "  input %x: f32[100, 30]\n  input %w: f32[30, 50]\n";
    for (int i = 0; i < n; ++i) graph += text_of({"  input %r", i, ": f32[100, 50]\n"});
    graph += "  %s0: f32[100, 50] = aten.mm.default(%x, %w)\n";
    for (int i = 0; i < n; ++i)
      graph += text_of({"  %s", i + 1, ": f32[100, 50] = aten.add.Tensor(%s", i, ", %r", i, ")\n"});
    auto parsed = graph_of(graph + text_of({"  output %s", n, "\n"}));
    std::vector<Tensor> inputs{randn({100, 30}), randn({30, 50})};
    for (int i = 0; i < n; ++i) inputs.push_back(randn({100, 50}));
    EXPECT_LE(difference(parsed, *compiled("inductor", parsed), inputs), 1e-4) << n;
  }
}

TEST_F(Inductor, AWrittenParameterIsPackedAgain) {
  auto graph = graph_of(mlp("gelu"));
  auto artifact = compiled("inductor", graph);
  std::vector<Tensor> inputs = mlp_inputs();
  EXPECT_LE(difference(graph, *artifact, inputs), 1e-3);
  inputs[1].mul_(2);
  EXPECT_LE(difference(graph, *artifact, inputs), 1e-3);
  inputs[3] = randn({256, 64});
  EXPECT_LE(difference(graph, *artifact, inputs), 1e-3);
}

TEST_F(Inductor, ABatchNormGoesIntoTheConvolutionBeforeIt) {
  auto graph = graph_of(R"(
  input %x: f32[2, 16, 20, 20]
  input %w: f32[32, 16, 3, 3] parameter static_address
  input %g: f32[32] parameter static_address
  input %b: f32[32] parameter static_address
  input %m: f32[32] buffer static_address
  input %v: f32[32] buffer static_address
  %c: f32[2, 32, 20, 20] = aten.convolution.default(%x, %w, none, [1, 1], [1, 1], [1, 1], false, [0, 0], 1)
  %n: f32[2, 32, 20, 20], %s: f32[0], %t: f32[0] = aten._native_batch_norm_legit_no_training.default(%c, %g, %b, %m, %v, 0.1, 1e-05)
  %r: f32[2, 32, 20, 20] = aten.relu.default(%n)
  %y: f32[2, 32] = aten.mean.dim(%r, [2, 3])
  output %y
)");
  auto artifact = compiled("inductor", graph);
  nlohmann::json stats = stats_of(*artifact);
  EXPECT_EQ(stats["conv"], 1);
  EXPECT_EQ(stats["prepacked_items"], int(stats["kernels"]) - 1);  // all but the mean with its relu
  std::vector<Tensor> inputs{
      randn({2, 16, 20, 20}), randn({32, 16, 3, 3}), randn({32}), randn({32}), randn({32}),
      rand({32}) + 0.5};
  EXPECT_LE(difference(graph, *artifact, inputs), 1e-3);
  inputs[5].add_(1);
  EXPECT_LE(difference(graph, *artifact, inputs), 1e-3);
}

TEST_F(Inductor, EqualLayersAreCompiledOnce) {
  std::string graph = "  input %x0: f32[50, 30]\n";
  for (int i = 0; i < 12; ++i) graph += text_of({"  input %w", i, ": f32[30, 30]\n"});
  for (int i = 0; i < 12; ++i)
    graph += text_of({"  %p", i, ": f32[50, 30] = aten.mm.default(%x", i, ", %w", i, ")\n  %x",
                      i + 1, ": f32[50, 30] = aten.sin.default(%p", i, ")\n"});
  auto artifact = compiled("inductor", graph_of(graph + "  output %x12\n"));
  EXPECT_EQ(stats_of(*artifact)["kernels"], 12);
  EXPECT_EQ(stats_of(*artifact)["distinct_kernels"], 1);
}

TEST_F(Inductor, AttentionHasNoTensorOfScores) {
  auto graph = graph_of(R"(
  input %q: f32[2, 4, 100, 32]
  input %k: f32[2, 4, 130, 32]
  input %v: f32[2, 4, 130, 32]
  input %m: bool[100, 130]
  %y: f32[2, 4, 100, 32] = aten.scaled_dot_product_attention.default(%q, %k, %v, %m)
  output %y
)");
  auto artifact = compiled("inductor", graph);
  EXPECT_EQ(stats_of(*artifact)["gemm"], 0);
  EXPECT_LE(stats_of(*artifact)["naive_bytes"], 2 * 4 * 100 * 32 * 4 + 256);
  Tensor mask = rand({100, 130}) > 0.3;
  mask.select(0, 7).fill_(0);  // a row that sees no key
  std::vector<Tensor> inputs{randn({2, 4, 100, 32}), randn({2, 4, 130, 32}), randn({2, 4, 130, 32}),
                             mask};
  EXPECT_LE(difference(graph, *artifact, inputs), 1e-5);
}

const char* const rows_of_any_number = R"(
  symbol s0 in [1, 1000] hint 8 from size(%x, 0)
  input %x: f32[s0, 33]
  input %i: i64[s0]
  input %t: f32[10, 33]
  %e: f32[s0, 33] = aten.embedding.default(%t, %i)
  %a: f32[s0, 33] = aten.add.Tensor(%x, %e)
  %y: f32[s0, 33] = aten._softmax.default(%a, 1, false)
  %s: f32[33] = aten.sum.dim_IntList(%y, [0])
  output %y, %s
)";

std::vector<Tensor> rows(int64_t n) {
  return {randn({n, 33}), randint(0, 10, {n}), randn({10, 33})};
}

TEST_F(Inductor, OneCompileServesAllSizes) {
  auto graph = graph_of(rows_of_any_number);
  auto artifact = compiled("inductor", graph);
  for (int64_t n : {1, 2, 15, 16, 17, 64, 999, 3})
    EXPECT_LE(difference(graph, *artifact, rows(n), {n}), 1e-4) << n;
}

TEST_F(Inductor, AnIndexOutsideOfItsTensorIsAnError) {
  auto graph = graph_of(rows_of_any_number);
  auto artifact = compiled("inductor", graph);
  std::vector<Tensor> inputs = rows(20);
  inputs[1].select(0, 11).fill_(10);
  EXPECT_THAT(error_of([&] { run(*artifact, *graph, inputs, {20}); }),
              HasSubstr("index out of range"));
  inputs[1].select(0, 11).fill_(-1);  // an embedding takes none from the end
  EXPECT_THAT(error_of([&] { run(*artifact, *graph, inputs, {20}); }),
              HasSubstr("index out of range"));
}

TEST_F(Inductor, ThreadsMayCallAndCompileAtTheSameTime) {
  auto graph = graph_of(rows_of_any_number);
  auto shared = compiled("inductor", graph);
  std::vector<std::thread> threads;
  std::vector<double> worst(8, 1);
  for (size_t t = 0; t < worst.size(); ++t)
    threads.emplace_back([&, t] {
      auto own = compiled("inductor", graph);
      worst[t] = 0;
      for (int64_t n = 1; n < 40; ++n) {
        std::vector<Tensor> inputs = rows(n + int64_t(t));
        int64_t size = n + int64_t(t);
        worst[t] = std::max({worst[t], difference(graph, *shared, inputs, {size}),
                             difference(graph, *own, inputs, {size})});
      }
    });
  for (std::thread& t : threads) t.join();
  EXPECT_THAT(worst, Each(Le(1e-4)));
}

// One kernel that makes all their beginnings, or reads all their ends, would need the memory of all.
TEST_F(Inductor, BranchesOverMuchDataRunOneAfterTheOther) {
  auto planned_rows = [](int rows) {
    std::string graph = text_of({"  input %x: f32[", rows,
                                 ", 4]\n  input %w: f32[4, 4]\n"
                                 "  input %sum0: f32[]\n"});
    for (int i = 0; i < 8; ++i)
      graph += text_of({"  %h",
                        i,
                        ": f32[",
                        rows,
                        ", 4] = aten.mul.Scalar(%x, ",
                        i + 2,
                        ".0)\n",
                        "  %p",
                        i,
                        ": f32[",
                        rows,
                        ", 4] = aten.mm.default(%h",
                        i,
                        ", %w)\n",
                        "  %s",
                        i,
                        ": f32[] = aten.sum.default(%p",
                        i,
                        ")\n",
                        "  %sum",
                        i + 1,
                        ": f32[] = aten.add.Tensor(%sum",
                        i,
                        ", %s",
                        i,
                        ")\n"});
    auto artifact = compiled("inductor", graph_of(graph + "  output %sum8\n"));
    return double(stats_of(*artifact)["planned_bytes"]) / (16.0 * rows);
  };
  EXPECT_LE(planned_rows(1 << 21), 5);
  EXPECT_GE(planned_rows(1 << 10), 7) << "little is read once";
}

TEST_F(Inductor, MemoryOfValuesThatAreDoneIsUsedAgain) {
  std::string graph = "  input %x0: f32[100, 100]\n";
  for (int i = 0; i < 10; ++i)
    graph += text_of({"  %x", i + 1, ": f32[100, 100] = aten.mm.default(%x", i, ", %x", i, ")\n"});
  auto artifact = compiled("inductor", graph_of(graph + "  output %x10\n"));
  nlohmann::json stats = stats_of(*artifact);
  EXPECT_EQ(stats["planned_bytes"], stats["peak_lower_bound_bytes"]);
  EXPECT_LE(4 * int64_t(stats["planned_bytes"]), int64_t(stats["naive_bytes"]));
}

}  // namespace
}  // namespace tenon
