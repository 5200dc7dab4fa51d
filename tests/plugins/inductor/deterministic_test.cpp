// With `deterministic` the inductor backend gives the same bits for any number of threads.
#include <gtest/gtest.h>

#include "core/threads/thread_pool.h"
#include "plugins/regions/support.h"

#include <tenon/tenon.h>

#include <functional>

namespace tenon {
namespace {

std::string bits_of(const std::vector<Tensor>& tensors) {
  std::string out;
  for (const Tensor& t : tensors) {
    if (!t.defined()) continue;
    Tensor dense = t.contiguous();
    out.append(reinterpret_cast<const char*>(dense.data_ptr<float>()),
               size_t(dense.numel()) * sizeof(float));
  }
  return out;
}

class InductorDeterministic : public testing::Test {
 protected:
  void SetUp() override {
    set_plugin_search({}, {TENON_PLUGIN_DIR});
    before_ = num_threads();
  }
  void TearDown() override {
    set_num_threads(before_);
    set_deterministic(false);
  }

  /// The bits that `run` gives with one thread, and whether others give the same.
  static void expect_same_bits(const std::function<std::vector<Tensor>()>& run) {
    std::string first;
    for (int threads : {1, 2, 3, 7}) {
      set_num_threads(threads);
      std::string bits = bits_of(run());
      if (first.empty()) first = bits;
      EXPECT_FALSE(bits.empty());
      EXPECT_TRUE(bits == first) << threads << " threads";
    }
  }
  static void expect_same_bits(const std::string& text, const std::vector<Tensor>& inputs) {
    auto graph = graph_of(text);
    expect_same_bits(
        [&] { return run(*compiled("inductor", graph, "deterministic = true"), *graph, inputs); });
  }

 private:
  int before_ = 1;
};

TEST_F(InductorDeterministic, FoldsOfAllElements) {
  expect_same_bits(R"(
  input %x: f32[1000, 1003]
  input %y: f32[1000, 1003]
  %p: f32[1000, 1003] = aten.mul.Tensor(%x, %y)
  %s: f32[] = aten.sum.default(%p)
  %m: f32[1003] = aten.mean.dim(%p, [0])
  %v: f32[1000], %w: f32[1000] = aten.var_mean.correction(%p, [1])
  output %s, %m, %v
)",
                   {randn({1000, 1003}), randn({1000, 1003})});
}

TEST_F(InductorDeterministic, FewLongRows) {
  expect_same_bits(R"(
  input %x: f32[6, 40000]
  input %w: f32[40000]
  %p: f32[6, 40000] = aten.mul.Tensor(%x, %w)
  %s: f32[6, 40000] = aten._softmax.default(%p, 1, false)
  %q: f32[6, 40000] = aten.mul.Tensor(%s, %x)
  %t: f32[40000] = aten.sum.dim_IntList(%q, [0])
  output %q, %t
)",
                   {randn({6, 40000}), randn({40000})});
}

TEST_F(InductorDeterministic, Layers) {
  for (int rows : {1, 5, 64, 300}) {
    std::string n = std::to_string(rows);
    expect_same_bits("  input %x: f32[" + n + ", 515]\n" + R"(
  input %w1: f32[515, 770] parameter static_address
  input %b1: f32[770] parameter static_address
  input %w2: f32[770, 129] parameter static_address
)" + "  %h: f32[" + n + ", 770] = aten.addmm.default(%b1, %x, %w1)\n  %g: f32[" +
                         n + ", 770] = aten.gelu.default(%h)\n  %y: f32[" + n +
                         ", 129] = aten.mm.default(%g, %w2)\n  output %y\n",
                     {randn({rows, 515}), randn({515, 770}), randn({770}), randn({770, 129})});
  }
}

TEST_F(InductorDeterministic, LayersInNarrowFloats) {
  for (int rows : {1, 64, 300}) {
    std::string n = std::to_string(rows);
    expect_same_bits("  input %x: bf16[" + n + ", 1603]\n" + R"(
  input %w: bf16[1603, 770] parameter static_address
  input %b: bf16[770] parameter static_address
)" + "  %h: bf16[" + n + ", 770] = aten.addmm.default(%b, %x, %w)\n  %y: f32[" +
                         n + ", 770] = aten._to_copy.default(%h, dtype=f32)\n  output %y\n",
                     {randn({rows, 1603}).to(Dtype::bf16), randn({1603, 770}).to(Dtype::bf16),
                      randn({770}).to(Dtype::bf16)});
  }
}

TEST_F(InductorDeterministic, ProductsOfTwoTensors) {
  expect_same_bits(
      R"(
  input %x: f32[5, 130, 333]
  input %y: f32[5, 333, 70]
  input %z: f32[3, 2000]
  input %u: f32[2000, 90]
  %p: f32[5, 130, 70] = aten.bmm.default(%x, %y)
  %q: f32[3, 90] = aten.mm.default(%z, %u)
  output %p, %q
)",
      {randn({5, 130, 333}), randn({5, 333, 70}), randn({3, 2000}), randn({2000, 90})});
}

TEST_F(InductorDeterministic, ConvolutionsOfManyAndFewRows) {
  expect_same_bits(R"(
  input %x: f32[2, 16, 40, 40]
  input %w: f32[48, 16, 3, 3] parameter static_address
  input %v: f32[96, 48, 3, 3] parameter static_address
  %c: f32[2, 48, 40, 40] = aten.convolution.default(%x, %w, none, [1, 1], [1, 1], [1, 1], false, [0, 0], 1)
  %r: f32[2, 48, 40, 40] = aten.relu.default(%c)
  %d: f32[2, 96, 8, 8] = aten.convolution.default(%r, %v, none, [5, 5], [1, 1], [1, 1], false, [0, 0], 1)
  output %d
)",
                   {randn({2, 16, 40, 40}), randn({48, 16, 3, 3}), randn({96, 48, 3, 3})});
}

TEST_F(InductorDeterministic, Attention) {
  expect_same_bits(R"(
  input %q: f32[1, 3, 200, 40]
  input %k: f32[1, 3, 150, 40]
  input %v: f32[1, 3, 150, 40]
  %y: f32[1, 3, 200, 40] = aten.scaled_dot_product_attention.default(%q, %k, %v)
  output %y
)",
                   {randn({1, 3, 200, 40}), randn({1, 3, 150, 40}), randn({1, 3, 150, 40})});
}

TEST_F(InductorDeterministic, TheModeOfTheThreadAsksForItToo) {
  Tensor x = randn({7, 60000}), w = randn({60000});
  auto f = compile([](const Tensor& x, const Tensor& w) { return softmax(x * w, -1).sum(0); },
                   {.backend = "inductor"});
  f(x, w);
  set_deterministic(true);
  EXPECT_TRUE(is_deterministic());
  expect_same_bits([&] { return std::vector<Tensor>{f(x, w)}; });
  EXPECT_EQ(f.stats().compiles, 2u);  // what was compiled before is not used
}

}  // namespace
}  // namespace tenon
