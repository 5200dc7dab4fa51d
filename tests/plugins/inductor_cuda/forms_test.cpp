// Which kernels a graph becomes: what results do not show.
#include "plugins/inductor/graphs.h"

#include <filesystem>
#include <fstream>
#include <sstream>

namespace tenon {
namespace {

class SimtForms : public testing::Test {
 protected:
  void SetUp() override { set_plugin_search({}, {TENON_TEST_PLUGIN_DIR, TENON_PLUGIN_DIR}); }
};

/// The largest difference from the interpreter's results.
double off(const std::shared_ptr<Graph>& graph, Artifact& artifact, std::vector<Tensor> inputs,
           const std::vector<int64_t>& syms = {}) {
  std::vector<Tensor> expected = run(*compiled("eager", graph), *graph, inputs, syms);
  std::vector<detail::TensorHead*> heads;
  for (const Tensor& t : inputs) heads.push_back(const_cast<detail::TensorHead*>(t.head()));
  std::vector<Tensor> found(graph->outputs().size());
  artifact.call(heads, syms, found);
  double most = 0;
  for (size_t i = 0; i < found.size(); ++i) most = std::max(most, distance(found[i], expected[i]));
  return most;
}

/// The code for a GPU of all kernels of a graph.
std::string ptx_of(const std::string& graph) {
  std::string file = testing::TempDir() + "simt_forms.ptx";
  std::filesystem::remove(file);
  auto no_caches = config::patch({{"compiler.force_disable_caches", true}});
  ::setenv("SIMT_KEEPS_PTX", file.c_str(), 1);
  compiled("simt", graph_of(graph));
  ::unsetenv("SIMT_KEEPS_PTX");
  std::stringstream text;
  text << std::ifstream(file).rdbuf();
  return text.str();
}
bool has(const std::string& text, const std::string& part) { return text.find(part) != text.npos; }

nlohmann::json kernels_of(const Artifact& artifact) { return stats_of(artifact)["items"]; }

TEST_F(SimtForms, ASumOfAnUnknownSizeIsCutIntoParts) {
  auto graph = graph_of(R"(
  symbol s in [2, inf] hint 100000 from size(%x, 0)
  symbol t in [2, inf] hint 8 from size(%x, 1)
  input %x: f32[s, t]
  %y: f32[] = aten.sum.default(%x)
  output %y
)");
  auto artifact = compiled("simt", graph);
  nlohmann::json kernels = kernels_of(*artifact);
  ASSERT_EQ(kernels.size(), 2);
  EXPECT_EQ(kernels[0]["versions"][0]["form"], "rows");
  EXPECT_EQ(kernels[0]["versions"][0]["vector"], 4);
  for (auto [s, t] : {std::pair<int64_t, int64_t>{3000, 12}, {3001, 7}, {2, 2}, {70000, 2}})
    EXPECT_LE(off(graph, *artifact, {randn({s, t}) * 0.01}, {s, t}), 1e-4) << s << " " << t;
}

TEST_F(SimtForms, AShortSumIsOneKernel) {
  auto graph = graph_of(R"(
  symbol s in [2, inf] hint 1000 from size(%x, 0)
  input %x: f32[s]
  %y: f32[] = aten.sum.default(%x)
  output %y
)");
  EXPECT_EQ(kernels_of(*compiled("simt", graph)).size(), 1);
}

TEST_F(SimtForms, ALongScanOfFewRowsIsCutIntoParts) {
  auto graph = graph_of(R"(
  symbol s in [2, inf] hint 50000 from size(%x, 1)
  input %x: f32[3, s]
  %y: f32[3, s] = aten.cumsum.default(%x, 1)
  output %y
)");
  auto artifact = compiled("simt", graph);
  nlohmann::json kernels = kernels_of(*artifact);
  ASSERT_EQ(kernels.size(), 3);
  EXPECT_EQ(kernels[0]["versions"][0]["form"], "rows");
  EXPECT_EQ(kernels[2]["versions"][0]["form"], "rows");
  EXPECT_EQ(kernels[2]["versions"][0]["vector"], 4);
  for (int64_t s : {50000, 4096, 4097, 4095, 2, 64, 20001})
    EXPECT_LE(off(graph, *artifact, {randn({3, s}) * 0.1}, {s}), 1e-3) << s;
}

TEST_F(SimtForms, ALongScanOfFewColumnsIsCutIntoParts) {
  auto graph = graph_of(R"(
  symbol s in [2, inf] hint 5000 from size(%x, 0)
  input %x: f32[s, 3]
  %y: f32[s, 3] = aten.cumprod.default(%x, 0)
  output %y
)");
  auto artifact = compiled("simt", graph);
  EXPECT_EQ(kernels_of(*artifact).size(), 3);
  for (int64_t s : {5000, 64, 65, 63, 2, 8193})
    EXPECT_LE(off(graph, *artifact, {rand({s, 3}) * 0.01 + 0.995}, {s}), 1e-3) << s;
}

// Of known and unknown lengths, in registers and in steps of a block.
TEST_F(SimtForms, ABlockScansARow) {
  for (const char* op : {"cumsum", "cumprod", "logcumsumexp"})
    for (const char* dtype : {"f32", "bf16", "i64"})
      for (int64_t n : {33, 257, 1024, 3000, 20000}) {
        if (std::string(dtype) != "f32" && (n > 3000 || std::string(op) != "cumsum")) continue;
        for (bool is_known : {true, false}) {
          std::string size = is_known ? std::to_string(n) : "s";
          std::string type = std::string(dtype) + "[5, " + size + "]";
          std::string text = "\n  input %x: " + type + "\n  %y: " + type + " = aten." + op +
                             ".default(%x, 1)\n  output %y\n";
          if (!is_known) text = "\n  symbol s in [2, inf] hint 700 from size(%x, 1)" + text;
          auto graph = graph_of(text);
          auto artifact = compiled("simt", graph);
          nlohmann::json kernels = kernels_of(*artifact);
          EXPECT_EQ(kernels[0]["versions"][0]["form"], "rows") << text;
          Tensor x = std::string(op) == "cumprod" ? rand({5, n}) * 0.01 + 0.995 : randn({5, n});
          if (std::string(dtype) == "i64") x = randint(-9, 9, {5, n});
          x = x.to(std::string(dtype) == "bf16" ? Dtype::bf16 : x.dtype());
          std::vector<int64_t> syms;
          if (!is_known) syms = {n};
          EXPECT_LE(off(graph, *artifact, {x}, syms), std::string(dtype) == "bf16" ? 0.6 : 3e-3)
              << text;
        }
      }
}

// What one kernel of a group makes may not lie where another still reads.
TEST_F(SimtForms, KernelsThatNeedNothingOfEachOtherShareALaunch) {
  auto sums = graph_of(R"(
  input %a: f32[40, 30]
  input %b: f32[40, 30]
  input %c: f32[7, 300]
  input %d: bf16[50]
  %p: f32[40] = aten.sum.dim_IntList(%a, [1])
  %q: f32[40] = aten.sum.dim_IntList(%b, [1])
  %r: f32[7] = aten.sum.dim_IntList(%c, [1])
  %s: bf16[50] = aten.relu.default(%d)
  %t: f32[40] = aten.tanh.default(%p)
  output %p, %q, %r, %s, %t
)");
  auto artifact = compiled("simt", sums);
  EXPECT_GE(stats_of(*artifact)["grouped_kernels"], 2);
  std::vector<Tensor> inputs{randn({40, 30}), randn({40, 30}), randn({7, 300}),
                             randn({50}).to(Dtype::bf16)};
  EXPECT_LE(off(sums, *artifact, inputs), 1e-3);
}

// An optimiser's parameters have as many sizes as layers.
TEST_F(SimtForms, LinesOfEveryLengthHaveOneCode) {
  auto line = [](const std::string& n) {
    return graph_of("input %x: f32[" + n + "]\n%y: f32[" + n +
                    "] = aten.sinh.default(%x)\noutput %y\n");
  };
  auto first = line("96"), second = line("20, 512"), odd = line("97");
  auto artifact = compiled("simt", first), longer = compiled("simt", second);
  EXPECT_EQ(stats_of(*longer)["kernel_cache_hits"], 1);
  EXPECT_EQ(stats_of(*compiled("simt", odd))["kernel_cache_hits"], 0);  // its end is another code
  EXPECT_LE(off(first, *artifact, {randn({96})}), 1e-6);
  EXPECT_LE(off(second, *longer, {randn({20, 512})}), 1e-6);
}

// The corrections of a step's parameters.
TEST_F(SimtForms, NumbersThatAreMadeAlikeHaveOneCode) {
  auto numbers = [](size_t n) {
    std::string inputs, nodes, outputs;
    for (size_t i = 0; i < n; ++i) {
      std::string k = std::to_string(i);
      inputs += "input %x" + k + ": f32[]\n";
      nodes += "%y" + k + ": f32[] = aten.lgamma.default(%x" + k + ")\n";
      outputs += (i ? ", %y" : "output %y") + k;
    }
    return graph_of(inputs + nodes + outputs + "\n");
  };
  auto few = numbers(2), many = numbers(12);
  auto artifact = compiled("simt", many);
  EXPECT_EQ(stats_of(*artifact)["kernels"], 1);
  EXPECT_LT(stats_of(*artifact)["object_bytes"].get<int>(),
            2 * stats_of(*compiled("simt", few))["object_bytes"].get<int>());
  std::vector<Tensor> inputs;
  for (int i = 0; i < 12; ++i) inputs.push_back(tensor({0.5 + i}).to(Dtype::f32).squeeze(0));
  EXPECT_LE(off(many, *artifact, inputs), 1e-5);
}

TEST_F(SimtForms, ATransposedCopyTurnsTiles) {
  auto graph = graph_of(R"(
  symbol s in [2, inf] hint 500 from size(%x, 0)
  input %x: f32[s, 300]
  %t: f32[300, s] strides [1, 300] = aten.permute.default(%x, [1, 0])
  %y: f32[300, s] = aten.clone.default(%t, memory_format=contiguous)
  output %y
)");
  auto artifact = compiled("simt", graph);
  EXPECT_EQ(kernels_of(*artifact)[0]["versions"][0]["form"], "tiles");
  for (int64_t s : {500, 33, 2, 64})
    EXPECT_EQ(off(graph, *artifact, {randn({s, 300})}, {s}), 0) << s;
}

TEST_F(SimtForms, PointsThatMeetAreAddedAtomically) {
  auto graph = graph_of(R"(
  input %x: f32[10, 16]
  input %i: i64[500]
  input %v: f32[500, 16]
  %y: f32[10, 16] = aten.index_put.default(%x, [%i], %v, true)
  output %y
)");
  std::vector<Tensor> inputs{randn({10, 16}), randint(0, 10, {500}), randn({500, 16})};
  for (bool is_fixed : {false, true}) {
    auto artifact = compiled("simt", graph, is_fixed ? "deterministic = true" : "");
    bool is_atomic = false;
    for (const auto& kernel : kernels_of(*artifact))
      for (const auto& version : kernel["versions"]) is_atomic |= version["atomic"].get<bool>();
    EXPECT_EQ(is_atomic, !is_fixed);
    EXPECT_LE(off(graph, *artifact, inputs), 1e-4);
  }
}

// Rows of four are added to by one instruction of newer GPUs; what does not begin at a multiple of
// 16 bytes, or ends before, is added one by one.
TEST_F(SimtForms, NeighboursThatMeetAreAddedTogether) {
  for (int64_t width : {4, 6, 7, 10, 64}) {
    std::string n = std::to_string(width);
    auto graph = graph_of("  input %x: f32[10, " + n + "]\n  input %i: i64[300]\n" +
                          "  input %v: f32[300, " + n + "]\n  %y: f32[10, " + n +
                          "] = aten.index_put.default(%x, [%i], %v, true)\n  output %y\n");
    auto artifact = compiled("simt", graph);
    int64_t widest = 0;
    for (const auto& kernel : kernels_of(*artifact))
      for (const auto& version : kernel["versions"])
        if (version["atomic"].get<bool>())
          widest = std::max(widest, version["vector"].get<int64_t>());
    EXPECT_EQ(widest, 4) << width;
    Tensor at = randint(0, 10, {300});
    EXPECT_LE(off(graph, *artifact, {randn({10, width}), at, randn({300, width})}), 1e-4) << width;
    Tensor unaligned = randn({300 * width + 1}).slice(0, 1).reshape({300, width});
    EXPECT_LE(off(graph, *artifact, {randn({10, width}), at, unaligned}), 1e-4) << width;
  }
}

// Of four products in a row three results are temporaries, and two live at a time.
TEST_F(SimtForms, TheMemoryPlanTellsWhatSharesMemory) {
  auto graph = graph_of(R"(
  input %x: f32[64, 64]
  %a: f32[64, 64] = aten.mm.default(%x, %x)
  %b: f32[64, 64] = aten.mm.default(%a, %x)
  %c: f32[64, 64] = aten.mm.default(%b, %x)
  %d: f32[64, 64] = aten.mm.default(%c, %x)
  output %d
)");
  auto artifact = compiled("simt", graph);
  EXPECT_LE(off(graph, *artifact, {randn({64, 64}) * 0.1}), 1e-4);
  constexpr int64_t bytes = 64 * 64 * 4 + 64;  // a line behind each
  EXPECT_EQ(stats_of(*artifact)["planned_bytes"], 2 * bytes);
  EXPECT_EQ(stats_of(*artifact)["naive_bytes"], 3 * bytes);
  std::string plan = artifact->describe(TN_DESC_MEMORY_PLAN);
  EXPECT_NE(plan.find("arena 32896 bytes, 49344 without reuse, 32896 live at most"), plan.npos)
      << plan;
  EXPECT_NE(plan.find("c: offset 0, 16448 bytes, items 2 to 3"), plan.npos) << plan;
}

TEST_F(SimtForms, DropoutIsOneKernelWithItsMask) {
  auto graph = graph_of(R"(
  input %x: f32[40, 30]
  %d: f32[40, 30], %m: bool[40, 30] = aten.native_dropout.default(%x, 0.3, true)
  %y: f32[40, 30] = aten.relu.default(%d)
  output %y, %m
)");
  auto artifact = compiled("simt", graph);
  EXPECT_EQ(kernels_of(*artifact).size(), 1);
  EXPECT_EQ(stats_of(*artifact)["extern_calls"], 0);
}

// Numbers that leave in 16 bits are neither divided by the routine that rounds as IEEE 754 says, nor are
// their exponentials reduced to powers near 0.
TEST_F(SimtForms, ASoftmaxOf16BitsHasShortForms) {
  auto softmax = [](const std::string& dtype) {
    std::string type = dtype + "[300, 4096]";
    return ptx_of("\n  input %x: " + type + "\n  %y: " + type +
                  " = aten._softmax.default(%x, 1, false)\n  output %y\n");
  };
  for (const char* dtype : {"bf16", "f16"}) {
    std::string ptx = softmax(dtype);
    EXPECT_TRUE(has(ptx, "div.full.f32") && !has(ptx, "div.rn.f32")) << ptx;
    EXPECT_TRUE(has(ptx, "ex2.approx.f32") && !has(ptx, "min.f32")) << ptx;
    EXPECT_TRUE(has(ptx, ".maxntid 128") && has(ptx, ".minnctapersm 8")) << ptx;
  }
  std::string ptx = softmax("f32");
  EXPECT_TRUE(!has(ptx, "div.full.f32") && has(ptx, "div.rn.f32")) << ptx;
  EXPECT_TRUE(has(ptx, "ex2.approx.f32") && has(ptx, "min.f32")) << ptx;
  EXPECT_TRUE(has(ptx, ".maxntid 256") && has(ptx, ".minnctapersm 4")) << ptx;
}

// Few registers are asked for where few are needed, and one row is all that a block keeps.
TEST_F(SimtForms, RegistersAreBoundedWhereFewAreNeeded) {
  auto ptx_of_op = [](const std::string& op) {
    return ptx_of("\n  input %x: bf16[300, 4096]\n  %y: bf16[300, 4096] = aten." + op +
                  ".default(%x)\n  output %y\n");
  };
  EXPECT_TRUE(has(ptx_of_op("gelu"), ".minnctapersm 8"));
  EXPECT_FALSE(has(ptx_of_op("lgamma"), ".minnctapersm"));
  std::string two = ptx_of(R"(
  input %g: bf16[300, 4096]
  input %y: bf16[300, 4096]
  %p: bf16[300, 4096] = aten.mul.Tensor(%g, %y)
  %s: bf16[300, 1] = aten.sum.dim_IntList(%p, [1], true)
  %q: bf16[300, 4096] = aten.mul.Tensor(%y, %s)
  %d: bf16[300, 4096] = aten.sub.Tensor(%p, %q)
  output %d
)");
  EXPECT_TRUE(has(two, ".maxntid 256") && !has(two, ".minnctapersm")) << two;
}

// What the host draws it draws when it is reached: then it draws all.
TEST_F(SimtForms, AGraphDrawsInOnePlace) {
  auto graph = graph_of(R"(
  input %x: f32[40, 3]
  %a: f32[40, 3] = aten.rand_like.default(%x)
  %p: i64[40] = aten.randperm.default(40)
  output %a, %p
)");
  EXPECT_EQ(stats_of(*compiled("simt", graph))["extern_calls"], 2);
}

// ---- what random graphs found

TEST_F(SimtForms, ARowThatTheKernelMakesIsReadUnderItsMask) {
  auto graph = graph_of(R"(
  input %x: f64[3, 4, 1] strides [1, 3, 12]
  input %w: f64[4, 1, 1]
  %r: f64[3, 4, 2] = aten.convolution.default(%x, %w, none, [2], [0], [1], true, [1], 4)
  output %r
)");
  auto artifact = compiled("simt", graph);
  Tensor x = randn({1, 4, 3}, Dtype::f64).permute({2, 1, 0});
  EXPECT_LE(off(graph, *artifact, {x, randn({4, 1, 1}, Dtype::f64)}), 1e-12);
}

// The folded stage reads %a over its lanes; the table's lanes are others, and %a is one element.
TEST_F(SimtForms, NeighboursInOneStageAreOneElementInAnother) {
  auto graph = graph_of(R"(
  symbol s in [2, inf] hint 6 from size(%x, 1)
  input %x: f64[1, s]
  input %w: f64[1, s]
  %z: f64[1, s] = aten.full.default([1, s], 0.5, dtype=f64)
  %c: bool[1, s] = aten.le.Scalar(%x, 1)
  %y: f64[1, s] = aten.where.self(%c, %x, %z)
  %f: f64[1] strides [s] = aten.select.int(%y, 1, 0)
  %g: f64[1] = aten.add.Tensor(%f, %f)
  %a: f64[1, s] = aten.select_scatter.default(%y, %g, 1, -1)
  %b: bool[1, s] = aten.logical_not.default(%a)
  %t: i64[1, s] = aten._to_copy.default(%b, dtype=i64)
  %i: i64[1, s] = aten.sub.Scalar(%t, 1)
  %r: f64[1, s, s] = aten.index.Tensor(%w, [%i])
  %p: i64[1, 1] = aten.argmax.default(%a, -1, true)
  output %p, %r
)");
  auto artifact = compiled("simt", graph);
  for (int64_t s : {6, 5, 8})
    EXPECT_LE(off(graph, *artifact, {randn({1, s}, Dtype::f64), randn({1, s}, Dtype::f64)}, {s}), 0)
        << s;
}

TEST_F(SimtForms, ARowOfTheKernelsOwnMayHaveNoElements) {
  auto graph = graph_of(R"(
  input %x: i64[17, 20, 0]
  input %y: i64[17, 1, 0]
  %p: i64[17, 3, 2] = aten.constant_pad_nd.default(%y, [2, 0, 2, 0], 2.0)
  %m: i64[] = aten.amax.default(%p)
  %s: i64[17, 2, 0] strides [20, 1, 1] offset 17 = aten.slice.Tensor(%x, 1, -3, -1)
  %t: i64[20, 17, 0] strides [1, 20, 1] = aten.permute.default(%x, [1, 0, 2])
  %n: i64[17, 2, 0] = aten.minimum.default(%s, %m)
  %d: i64[20, 17, 0] = aten.sub.Tensor(%t, %t)
  %e: i64[17, 0] strides [2, 1] offset 1 = aten.select.int(%n, 1, -1)
  %a: i64[20, 17, 0] = aten.add.Tensor(%d, %d)
  %b: i64[20, 17, 0] = aten.sub.Tensor(%a, %e)
  %v: i64[0] = aten.view.default(%b, [0])
  %i: i64[0] = aten.remainder.Scalar(%v, 20)
  %r: i64[17, 0, 0] = aten.index_select.default(%x, 1, %i)
  output %m, %r
)");
  auto artifact = compiled("simt", graph);
  Tensor x = zeros({17, 20, 0}, Dtype::i64), y = zeros({17, 1, 0}, Dtype::i64);
  EXPECT_EQ(off(graph, *artifact, {x, y}), 0);
}

TEST_F(SimtForms, WhatIsMadeOfParametersOnceMayHaveNoElements) {
  auto graph = graph_of(R"(
  input %x: f32[3, 0]
  input %w: f32[0] parameter static_address
  %v: f32[0] = aten.cumsum.default(%w, 0)
  %r: f32[3, 0] = aten.mul.Tensor(%x, %v)
  output %r
)");
  CompileRequest request;
  request.graph = graph;
  request.stage = Stage::inference;
  auto artifact = compile_with_backend("simt", request);
  EXPECT_EQ(kernels_of(*artifact)[0]["prepacked"], true);
  EXPECT_EQ(off(graph, *artifact, {zeros({3, 0}), zeros({0})}), 0);
}

TEST_F(SimtForms, ATransposedConvolutionMayAddToItsEnd) {
  auto graph = graph_of(R"(
  symbol s in [2, 100] hint 4 from size(%x, 0)
  input %x: f32[s, 128, 1]
  input %w: f32[128, 128, 1]
  %r: f32[s, 128, 2] = aten.convolution.default(%x, %w, none, [1], [0], [2], true, [1], 1)
  output %r
)");
  auto artifact = compiled("simt", graph);
  EXPECT_LE(off(graph, *artifact, {randn({4, 128, 1}), randn({128, 128, 1})}, {4}), 1e-4);
}

// NVIDIA's compiler joins minima, and is wrong where they are of negated numbers.
TEST_F(SimtForms, ExtremesOfNegatedIntegersAreChosen) {
  auto extreme_of = [](const std::string& op) {
    return ptx_of("\n  input %x: i32[3, 40]\n  %n: i32[3, 40] = aten." + op +
                  ".default(%x)\n  %y: i32[40] = aten.amin.default(%n, [0])\n  output %y\n");
  };
  std::string ptx = extreme_of("neg");
  EXPECT_TRUE(has(ptx, "setp.lt.s32 %chosen") && has(ptx, "selp.b32") && !has(ptx, "min.s32"))
      << ptx;
  EXPECT_TRUE(has(extreme_of("abs"), "min.s32"));
}

// Windows that overlap are a view of memory in which each element has one writer.
TEST_F(SimtForms, WindowsThatOverlapAreWrittenOnce) {
  auto graph = graph_of(R"(
  input %x: f32[40]
  %y: f32[40] = aten.exp.default(%x)
  %w: f32[19, 4] strides [2, 1] = aten.unfold.default(%y, 0, 4, 2)
  output %w
)");
  EXPECT_LE(off(graph, *compiled("simt", graph), {randn({40})}), 1e-5);
}

}  // namespace
}  // namespace tenon
