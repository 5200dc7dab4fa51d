// A compiled graph that is called in a loop takes nothing from the heap but its outputs, and no
// fresh pages.
#include <gtest/gtest.h>

#include "plugins/inductor/steady_state/count_allocations.h"
#include "plugins/regions/support.h"

#include <tenon/tenon.h>

#include <sys/resource.h>

#include <algorithm>
#include <array>

namespace tenon {
namespace {

class InductorSteady : public testing::Test {
 protected:
  void SetUp() override { set_plugin_search({}, {TENON_PLUGIN_DIR}); }

  struct Cost {
    int64_t allocations, page_faults;
  };
  /// Of 200 calls of the artifact with one output, once it is steady: a thread that takes part for
  /// the first time makes scratch memory for itself.
  static Cost cost_of_calls(Artifact& artifact, const std::vector<Tensor>& inputs,
                            std::vector<int64_t> syms = {}) {
    constexpr int warm_up = 20, calls = 200, windows = 8;
    std::array<detail::TensorHead*, 16> heads{};
    std::array<Tensor, 1> outputs;
    auto call = [&] {
      for (size_t i = 0; i < inputs.size(); ++i) heads[i] = inputs[i].head();
      artifact.call({heads.data(), inputs.size()}, syms, outputs, /*steal=*/false);
      outputs[0] = Tensor();
    };
    for (int i = 0; i < warm_up; ++i) call();
    Cost least{1 << 30, 1 << 30};
    for (int window = 0; window < windows && least.allocations + least.page_faults > 0; ++window) {
      Cost before = now();
      for (int i = 0; i < calls; ++i) call();
      Cost after = now();
      least.allocations = std::min(least.allocations, after.allocations - before.allocations);
      least.page_faults = std::min(least.page_faults, after.page_faults - before.page_faults);
    }
    return least;
  }
  /// What a tensor takes from the heap.
  static int64_t allocations_of_a_tensor(const std::vector<int64_t>& sizes) {
    for (int i = 0; i < 4; ++i) Tensor warm_up = tenon::empty(sizes);
    int64_t before = allocations();
    Tensor t = tenon::empty(sizes);
    return allocations() - before;
  }
  static void expect_steady(const std::string& text, const std::vector<Tensor>& inputs,
                            const std::vector<int64_t>& output) {
    auto graph = graph_of(text);
    auto artifact = compiled("inductor", graph);
    Cost cost = cost_of_calls(*artifact, inputs);
    EXPECT_LE(cost.allocations, 200 * allocations_of_a_tensor(output));
    EXPECT_EQ(cost.page_faults, 0);
  }

 private:
  static Cost now() {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    return {allocations(), usage.ru_minflt};
  }
};

TEST_F(InductorSteady, KernelsTakeNothing) {
  expect_steady(R"(
  input %x: f32[512, 1000]
  input %b: f32[1000]
  %a: f32[512, 1000] = aten.add.Tensor(%x, %b)
  %s: f32[512, 1000] = aten._softmax.default(%a, 1, false)
  %m: f32[1000] = aten.sum.dim_IntList(%s, [0])
  output %m
)",
                {randn({512, 1000}), randn({1000})}, {1000});
}

TEST_F(InductorSteady, LargeOutputsTakeNoFreshPages) {
  expect_steady(R"(
  input %x: f32[1024, 2048]
  %a: f32[1024, 2048] = aten.relu.default(%x)
  output %a
)",
                {randn({1024, 2048})}, {1024, 2048});
}

TEST_F(InductorSteady, LayersTakeNothing) {
  for (int rows : {1, 300}) {
    std::string n = std::to_string(rows);
    expect_steady("  input %x: f32[" + n + ", 256]\n" + R"(
  input %w1: f32[256, 512] parameter static_address
  input %b1: f32[512] parameter static_address
  input %w2: f32[512, 128] parameter static_address
)" + "  %h: f32[" + n +
                      ", 512] = aten.addmm.default(%b1, %x, %w1)\n  %g: f32[" + n +
                      ", 512] = aten.gelu.default(%h)\n  %y: f32[" + n +
                      ", 128] = aten.mm.default(%g, %w2)\n  %z: f32[" + n +
                      ", 128] = aten._softmax.default(%y, 1, false)\n  output %z\n",
                  {randn({rows, 256}), randn({256, 512}), randn({512}), randn({512, 128})},
                  {rows, 128});
  }
}

TEST_F(InductorSteady, AttentionTakesNothing) {
  expect_steady(R"(
  input %q: f32[2, 4, 128, 32]
  input %k: f32[2, 4, 128, 32]
  input %v: f32[2, 4, 128, 32]
  %y: f32[2, 4, 128, 32] = aten.scaled_dot_product_attention.default(%q, %k, %v)
  output %y
)",
                {randn({2, 4, 128, 32}), randn({2, 4, 128, 32}), randn({2, 4, 128, 32})},
                {2, 4, 128, 32});
}

// The library itself takes a table at each call, but no memory for tensors.
TEST_F(InductorSteady, ConvolutionsTakeNoFreshPages) {
  auto graph = graph_of(R"(
  input %x: f32[2, 16, 56, 56]
  input %w: f32[64, 16, 3, 3]
  %c: f32[2, 64, 56, 56] = aten.convolution.default(%x, %w, none, [1, 1], [1, 1], [1, 1], false, [0, 0], 1)
  %r: f32[2, 64, 56, 56] = aten.relu.default(%c)
  output %r
)");
  auto artifact = compiled("inductor", graph);
  EXPECT_EQ(cost_of_calls(*artifact, {randn({2, 16, 56, 56}), randn({64, 16, 3, 3})}).page_faults,
            0);
}

}  // namespace
}  // namespace tenon
