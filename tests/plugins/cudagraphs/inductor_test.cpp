// inductor in graph mode: fused kernels, products and numbers as recordings.
#include "graphs.h"

#include "backend/backend.h"
#include "graph/artifact.h"
#include "graph/text/parse.h"

#include <tenon/compiler.h>
#include <tenon/plugin.h>

#include <nlohmann/json.hpp>

#include <memory>

namespace tenon::graphs {
namespace {

using testing::HasSubstr;
using testing::Not;

class Fused : public Graphs {};

TEST_F(Fused, KernelsAloneAreRecordedAtTheFirstCall) {
  auto f = compile([](const Tensor& x, const Tensor& y) { return ((x * y) + 1.0).relu().sum(0); },
                   fused());
  Tensor x = arange(8, Dtype::f32).reshape({2, 4}) - 4.0;
  for (int i = 0; i < 5; ++i)
    expect_equal(f(there(x), there(x + double(i))), ((x * (x + double(i))) + 1.0).relu().sum(0));
  EXPECT_EQ(n_recordings(), 1);
  EXPECT_EQ(n_replays(), 4);
  EXPECT_THAT(f.explain(), HasSubstr(": 1 recording of 1 size, with "));
  EXPECT_THAT(f.explain(), HasSubstr("; 4 replays, 0 warm-ups"));
}

TEST_F(Fused, ProductsAreWarmedUp) {
  Tensor here = ones({256, 256}) * 0.5, w = there(here);
  auto f = compile([&](const Tensor& x) { return x.matmul(w).relu().matmul(w); }, fused());
  Tensor x = (arange(8 * 256, Dtype::f32) % 7 * 0.25).reshape({8, 256});
  for (int i = 0; i < 5; ++i)
    expect_equal(f(there(x * double(i))), (x * double(i)).matmul(here).relu().matmul(here));
  EXPECT_EQ(n_recordings(), 1);
  EXPECT_EQ(n_replays(), 3);
}

// They are parameters of launches, which a replay changes.
TEST_F(Fused, NumbersOnTheCpuAreThoseOfTheCall) {
  for (bool is_recorded : {true, false}) {
    reset();
    Tensor scale = tensor(0.5f);
    auto f = compile([&](const Tensor& x) { return (x * scale + scale * 2.0).relu(); },
                     is_recorded ? fused() : fused({{"cudagraphs", "false"}}));
    for (int i = 0; i < 6; ++i) {
      scale.fill_(0.25 * i);
      expect_equal(f(there(ones({5}))), ones({5}) * 0.75 * double(i));
    }
    EXPECT_EQ(n_recordings(), is_recorded ? 1 : 0) << f.explain();
    EXPECT_EQ(n_replays(), is_recorded ? 5 : 0);
  }
}

TEST_F(Fused, ModesDecideWhetherItIsRecorded) {
  for (const char* mode : {"reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs", ""}) {
    reset();
    Options options;
    options.backend = "inductor";
    options.mode = mode;
    auto f = compile([](const Tensor& x) { return x * 2.0 + 1.0; }, options);
    for (int i = 0; i < 4; ++i) expect_equal(f(there(ones({4}))), ones({4}) * 3.0);
    bool is_recorded =
        std::string(mode) == "reduce-overhead" || std::string(mode) == "max-autotune";
    EXPECT_EQ(n_replays(), is_recorded ? 3 : 0) << mode;
  }
}

TEST_F(Fused, OnTheCpuTheModeChangesNothing) {
  Options options;
  options.backend = "eager";
  auto f = compile([](const Tensor& x) { return x * 2.0; }, options);
  expect_equal(f(ones({4})), ones({4}) * 2.0);
  EXPECT_EQ(n_recordings(), 0);
}

// As it is by default, only the node that stands against it runs directly.
TEST_F(Fused, PiecesAreRecordedAroundWhatIsNot) {
  auto body = [](const Tensor& x) {
    Tensor y = x * 2.0 + 1.0;
    return (y + multinomial(y.abs(), 6, true) * 0.0).relu() - 3.0;
  };
  auto f = compile(body, fused());
  Tensor x = arange(6, Dtype::f32);
  for (int i = 0; i < 4; ++i) expect_equal(f(there(x + double(i))), (x + double(i)) * 2.0 - 2.0);
  EXPECT_EQ(n_recordings(), 2);
  EXPECT_EQ(n_replays(), 6);
  EXPECT_THAT(f.explain(), HasSubstr("aten.multinomial.default draws random numbers on the CPU "
                                     "(unsafe_op, "));
  auto whole = compile(body, fused({{"graph_partition", "false"}}));
  for (int i = 0; i < 4; ++i)
    expect_equal(whole(there(x + double(i))), (x + double(i)) * 2.0 - 2.0);
  EXPECT_EQ(n_recordings(), 2) << "those of f";
  EXPECT_THAT(whole.explain(), HasSubstr("not recorded: aten.multinomial.default"));
}

// A recording would repeat the number and the draw of its first call.
TEST_F(Fused, WhatTheHostRunsOfNumbersAndDrawsIsNamed) {
  std::map<std::string, std::string> without_code{{"fail_kernels", "\"*\""}};
  auto f = compile([](const Tensor& x, const Tensor& n) { return x * n; }, fused(without_code));
  auto g = compile([](const Tensor& x) { return x + rand_like(x) * 0.0; }, fused(without_code));
  Tensor x = arange(4, Dtype::f32);
  for (int i = 0; i < 3; ++i) {
    expect_equal(f(there(x), full({}, i)), x * double(i));
    expect_equal(g(there(x)), x);
  }
  EXPECT_EQ(n_recordings(), 0);
  EXPECT_THAT(f.explain(), HasSubstr("aten.mul.Tensor is run by the host, which reads a number on "
                                     "the CPU (unsafe_op)"));
  EXPECT_THAT(g.explain(), HasSubstr("is run by the host, which draws its random numbers "
                                     "(unsafe_op)"));
}

/// Attention where the library refuses the nth descriptor. False where that is one of the call's, or
/// there is none.
bool is_right_without(uint64_t nth) {
  constexpr int32_t not_supported = 3000;
  auto part = [&](int64_t n) { return (randn({1, 2, n, 64}) * 0.5).to(Dtype::bf16); };
  int64_t keys = 520 + 8 * static_cast<int64_t>(nth);  // a problem of its own
  Tensor q = part(128), k = part(keys), v = part(keys), found;
  auto f = compile([](const Tensor& a, const Tensor& b,
                      const Tensor& c) { return scaled_dot_product_attention(a, b, c); },
                   fused({{"cudagraphs", "false"}}));
  ::fail_at("cudnnBackendFinalize", nth, not_supported);
  try {
    found = f(there(q), there(k), there(v));
  } catch (const Error& e) {
    EXPECT_THAT(e.what(), HasSubstr("(code of backend inductor)"));
  }
  bool is_refused = failed_call() != nullptr;
  ::fail_at("", 0, 0);
  if (!found.defined() || !is_refused) return false;
  Tensor off = to_cpu(found).to(Dtype::f32) - scaled_dot_product_attention(q, k, v);
  EXPECT_LT(off.abs().max().item<float>().value(), 0.02f) << nth;
  return true;
}

// Its plan is made while the rest is compiled, which counts on it. The last descriptors are those of
// the engine and of the plan.
TEST_F(Fused, AttentionWhosePlanComesToNothingGoesByParts) {
  if (!is_double()) GTEST_SKIP() << "has the library's double refuse";
  constexpr uint64_t stride = 8;
  uint64_t nth = 1;
  while (is_right_without(nth)) nth += stride;
  ASSERT_GT(nth, stride);
  int right = 0;
  for (uint64_t n = nth - stride + 1; n < nth; ++n) right += is_right_without(n);
  EXPECT_GT(right, 0);
}

TEST_F(Fused, SymbolsOfAPieceAreThoseOfTheGraph) {
  Options options = fused();
  options.dynamic = true;
  auto f = compile(
      [](const Tensor& x, const Tensor& y) {
        Tensor a = x.sum(1) * double(2), b = y * 3.0;
        return a + b + multinomial(b.abs() + 1.0, 1, true) * 0.0 + x.size(1);
      },
      options);
  for (auto [n, m] : {std::pair<int64_t, int64_t>{3, 5}, {4, 7}, {3, 5}, {4, 7}, {6, 2}, {3, 5}}) {
    Tensor x = arange(n * m, Dtype::f32).reshape({n, m}), y = arange(n, Dtype::f32);
    expect_equal(f(there(x), there(y)), x.sum(1) * 2.0 + y * 3.0 + double(m));
  }
  EXPECT_GT(n_replays(), 2);
}

TEST_F(Fused, OptionsOfRecordingsMeanTheSame) {
  auto body = [](const Tensor& x) { return x * 2.0; };
  auto blocked = compile(body, fused({{"cuda_launch_blocking", "true"}}));
  blocked(there(ones({4})));
  EXPECT_THAT(blocked.explain(),
              HasSubstr("not recorded: inductor.cuda_launch_blocking is on (disabled)"));
  auto small = compile(body, fused({{"cudagraph_min_partition_size", "2"}}));
  small(there(ones({4})));
  EXPECT_THAT(small.explain(), HasSubstr("inductor.cudagraph_min_partition_size is 2 (too_small)"));
  auto strict = compile([](const Tensor& x) { return x + multinomial(x, 4, true); },
                        fused({{"cudagraph_or_error", "true"}, {"graph_partition", "false"}}));
  EXPECT_THROW(strict(there(ones({4}))), Error);
  auto forced = compile(body, fused({{"force_cudagraphs_warmup", "true"}}));
  for (int i = 0; i < 3; ++i) forced(there(ones({4})));
  EXPECT_THAT(forced.explain(), HasSubstr("1 replay, 1 warm-up"));
}

/// What code of a product and a sum of rows says of its items, behind three calls.
nlohmann::json items_of(const std::string& options_toml) {
  CompileRequest request;
  request.graph = parse_graph(
      "tng 1\ngraph @f {\n  input %x: f32[64, 64] on cuda:0\n"
      "  %y: f32[64, 64] on cuda:0 = aten.mm.default(%x, %x)\n"
      "  %z: f32[64] on cuda:0 = aten.sum.dim_IntList(%y, [1])\n  output %z\n}\n");
  request.stage = Stage::inference;
  request.compile_id = "0/1";
  request.options_toml = options_toml;
  std::shared_ptr<Artifact> code = compile_with_backend("inductor", request);
  Tensor x = there(ones({64, 64}));
  detail::TensorHead* inputs[] = {const_cast<detail::TensorHead*>(x.head())};
  Tensor found[1];
  for (int i = 0; i < 3; ++i) code->call(inputs, {}, found);
  expect_equal(found[0], full({64}, 4096.0));
  return nlohmann::json::parse(code->describe(TN_DESC_STATS_JSON))["items"];
}

// Over the double a piece of work takes a millisecond, so an item takes one or two.
TEST_F(Fused, AProfileTellsCallsAndTimesOfItems) {
  nlohmann::json items = items_of("profile = true");
  ASSERT_GE(items.size(), 2u);
  for (const nlohmann::json& item : items) {
    EXPECT_EQ(item["calls"], 3) << item;
    EXPECT_GT(item["us"], is_double() ? 999 : 0) << item;
    EXPECT_LT(item["us"], is_double() ? 2001 : 10000) << item;
  }
  for (const nlohmann::json& item : items_of("")) {
    EXPECT_FALSE(item.contains("us")) << item;
    EXPECT_FALSE(item.contains("calls")) << item;
  }
}

TEST_F(Fused, APoolsResultIsOverWithItsStep) {
  auto f =
      compile([](const Tensor& x) { return x * 2.0; }, fused({{"cuda_graph_outputs", "\"pool\""}}));
  Tensor kept;
  for (int i = 0; i < 4; ++i) {
    compiler::cudagraph_mark_step_begin();
    kept = f(there(ones({4}) * double(i)));
    expect_equal(kept, ones({4}) * 2.0 * double(i));
  }
  compiler::cudagraph_mark_step_begin();
  f(there(ones({4})));
  EXPECT_THROW(moved(kCPU, kept), Error);
}

}  // namespace
}  // namespace tenon::graphs
