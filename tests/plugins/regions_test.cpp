// Graphs of which a backend takes parts: the pieces together do what the interpreter does, the
// plugin is told the truth about each, and what was left to whom can be seen.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backend/compile/declined.h"
#include "graph/text/page_graph.h"
#include "ops/op_table.h"
#include "plugins/regions/support.h"

#include <tenon/plugin.h>

#include <algorithm>
#include <thread>

namespace tenon {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

const std::string chain = R"(
  input %x: f32[2]
  constant %w: f32[2] = [1.0, 2.0]
  %a: f32[2] = aten.add.Tensor(%x, %w)
  %b: f32[2] = aten.sin.default(%a)
  %c: f32[2] = aten.mul.Tensor(%b, %a)
  %d: f32[2] = aten.relu.default(%c)
  output %d, %a
)";

TEST_F(Regions, WhatIsSupportedAsAWholeIsCompiledAsItIs) {
  auto graph = graph_of(chain);
  auto artifact = compiled("regions", graph, "ops = ['*']");
  EXPECT_EQ(log_->compiles(), 1);
  EXPECT_EQ(report::counter("backend.regions").value(), 0);
  EXPECT_EQ(artifact->describe(TN_DESC_STATS_JSON), "");  // its own, and it has none
}

TEST_F(Regions, EachIsCompiledAsAGraphOfItsOwn) {
  auto graph = graph_of(chain);
  auto artifact = compiled("regions", graph,
                           "ops = ['aten.add.Tensor', 'aten.mul.Tensor', 'aten.relu.default']");
  EXPECT_EQ(log_->compiles(), 2);
  EXPECT_THAT(log_->graphs(), AllOf(HasSubstr("id 0/0.0"), HasSubstr("id 0/0.2"),
                                    HasSubstr("constant"), Not(HasSubstr("aten.sin.default"))));
  Tensor x = tensor({0.5f, -1.0f});
  auto out = run(*artifact, *graph, {x});
  Tensor a = x + tensor({1.0f, 2.0f});
  EXPECT_EQ(out[0].to_vector<float>(), relu(sin(a) * a).to_vector<float>());
  EXPECT_EQ(out[1].to_vector<float>(), a.to_vector<float>());
  EXPECT_EQ(log_->calls(), 2);
  EXPECT_EQ(report::counter("backend.regions").value(), 2);
  EXPECT_EQ(report::counter("backend.region_nodes").value(), 3);
  EXPECT_EQ(report::counter("fallback.calls").value(), 1);
  EXPECT_EQ(report::counter("fallback.nodes").value(), 1);
  EXPECT_THAT(
      artifact->describe(TN_DESC_STATS_JSON),
      AllOf(HasSubstr("\"extern_ops\":[\"aten.sin.default\"]"), HasSubstr("\"regions\":2")));
}

TEST_F(Regions, AreToldWithTheReasonForEachNode) {
  DeclineObserver observer;
  compiled(
      "regions", graph_of(chain),
      "ops = ['aten.add.Tensor']\nfused = ['aten.mul.Tensor']\ndecline = ['aten.relu.default']");
  ASSERT_EQ(observer.pieces().size(), 2u);
  const PlacedPiece &first = observer.pieces()[0], &rest = observer.pieces()[1];
  EXPECT_EQ(first.run_by, "regions");
  EXPECT_TRUE(first.is_region);
  EXPECT_EQ(first.nodes[0].op, "aten.add.Tensor");
  EXPECT_EQ(rest.run_by, "eager");
  ASSERT_EQ(rest.nodes.size(), 3u);
  EXPECT_EQ(rest.nodes[0].why, "the backend does not support it");
  EXPECT_EQ(rest.nodes[1].why, "the backend supports it beside others only");
}

TEST_F(Regions, PicturesTellWhoRunsANode) {
  auto graph = graph_of(chain);
  auto boxes = [&](const std::string& options) {
    DeclineObserver observer;
    compiled("regions", graph, options);
    std::vector<std::string> out;
    auto page = page_graph(*graph, {.run_by = runners_of(*graph, "regions", observer)});
    for (const report::PageNode& node : page.nodes)
      if (find_op("aten." + node.label + ".default") || find_op("aten." + node.label + ".Tensor"))
        out.push_back(node.label + " " + node.run_by);
    return out;
  };
  std::vector<std::string> some = boxes("ops = ['aten.add.Tensor', 'aten.mul.Tensor']");
  EXPECT_EQ(std::ranges::count(some, "add "), 1);
  EXPECT_EQ(std::ranges::count(some, "mul "), 1);
  EXPECT_EQ(std::ranges::count(some, "relu eager"), 1);
  for (const std::string& box : boxes("ops = []")) EXPECT_TRUE(box.ends_with(" eager")) << box;
}

TEST_F(Regions, OneThatIsDeclinedFallsToTheFallbackToo) {
  DeclineObserver observer;
  auto graph = graph_of(chain);
  auto artifact = compiled("regions", graph,
                           "ops = ['aten.add.Tensor', 'aten.mul.Tensor', 'aten.relu.default']\n"
                           "decline = ['aten.mul.Tensor']");
  EXPECT_EQ(log_->compiles(), 1);
  ASSERT_EQ(observer.pieces().size(), 3u);
  EXPECT_EQ(observer.pieces()[2].run_by, "eager");
  EXPECT_EQ(observer.pieces()[2].nodes[0].why,
            "the backend declined its region: told to decline the region");
  ASSERT_EQ(observer.declined().size(), 1u);
  EXPECT_THAT(artifact->describe(TN_DESC_STATS_JSON), HasSubstr("\"aten.mul.Tensor\""));
  auto out = run(*artifact, *graph, {tensor({0.5f, 1.0f})});
  EXPECT_EQ(out[0].size(0).guard_int(), 2);
}

TEST_F(Regions, NoneLeavesTheGraphWhole) {
  DeclineObserver observer;
  auto artifact = compiled("regions", graph_of(chain), "ops = ['aten.mm.default']");
  EXPECT_EQ(log_->compiles(), 0);
  ASSERT_EQ(observer.declined().size(), 1u);
  EXPECT_THAT(observer.declined()[0].reason,
              HasSubstr("left are aten.add.Tensor, aten.mul.Tensor, aten.relu.default"));
  EXPECT_THAT(artifact->describe(TN_DESC_STATS_JSON), HasSubstr("\"aten.sin.default\""));
}

TEST_F(Regions, WithoutAFallbackEveryUnsupportedOpIsNamed) {
  try {
    compiled("regions_alone", graph_of(chain), "ops = ['aten.mul.Tensor', 'aten.add.Tensor']");
    ADD_FAILURE() << "the graph was taken";
  } catch (const BackendError& e) {
    EXPECT_EQ(e.code(), ErrorCode::unsupported);
    EXPECT_STREQ(e.what(),
                 "backend regions_alone does not support aten.relu.default, aten.sin.default, and "
                 "has no fallback; use another backend");
  }
  EXPECT_EQ(error_of([] { compiled("regions_alone", graph_of(chain), "ops = ['*']"); }),
            "no error");
}

TEST_F(Regions, SmallOnesAreNotWorthACall) {
  auto graph = graph_of(chain);
  compiled("regions_pairs", graph,
           "ops = ['aten.add.Tensor', 'aten.mul.Tensor', 'aten.relu.default']");
  EXPECT_EQ(log_->compiles(), 1);
  EXPECT_EQ(report::counter("backend.region_nodes").value(), 2);
}

TEST_F(Regions, ErrorsOfSupportsAreTheBackends) {
  auto told = [](const std::string& fail) {
    return error_of([&] { compiled("regions", graph_of(chain), "fail = '" + fail + "'"); });
  };
  EXPECT_THAT(told("supports"), HasSubstr("backend regions: supports: told to fail"));
  EXPECT_THAT(told("verdict"),
              HasSubstr("supports said 7 of node 0 (aten.add.Tensor); expected 0"));
  EXPECT_EQ(told("declines"), "no error");
}

TEST_F(Regions, AFallbackMayCutTheRestAgain) {
  config::set("regions.ops", std::vector<std::string>{"aten.sin.default"});
  auto graph = graph_of(chain);
  auto artifact = compiled("regions_nested", graph, "ops = ['aten.mul.Tensor']");
  config::unset("regions.ops");
  EXPECT_EQ(log_->compiles(), 2);
  Tensor x = tensor({0.5f, -1.0f}), a = x + tensor({1.0f, 2.0f});
  EXPECT_EQ(run(*artifact, *graph, {x})[0].to_vector<float>(), relu(sin(a) * a).to_vector<float>());
}

// ---- chains of backends

TEST_F(Regions, CyclesOfBackendsAreRefused) {
  auto told = [](const std::string& backend) {
    return error_of([&] { compiled(backend, graph_of(chain)); });
  };
  EXPECT_THAT(told("calls_itself"), HasSubstr("calls_itself is already compiling this graph"));
  EXPECT_THAT(
      told("calls_ping"),
      HasSubstr("test_regions/calls_ping, test_regions/calls_pong, test_regions/calls_ping"));
  EXPECT_THAT(told("falls_to_ping"), HasSubstr("a cycle of backends cannot end"));
}

TEST_F(Regions, EightBackendsMayCallEachOther) {
  EXPECT_EQ(error_of([] { compiled("deep_1", graph_of(chain)); }), "no error");
  EXPECT_THAT(error_of([] { compiled("deep_0", graph_of(chain)); }),
              HasSubstr("more than 8 backends hand a graph to each other"));
}

// ---- symbols, lists, aliases

TEST_F(Regions, SizesCrossTheBorder) {
  auto graph = graph_of(R"(
  symbol s0 in [2, inf] hint 4 from size(%x, 0)
  input %x: f32[s0, 3]
  %v: f32[3*s0] = aten.view.default(%x, [3*s0])
  %a: f32[3*s0] = aten.relu.default(%v)
  %b: f32[s0, 3] = aten.view.default(%a, [s0, 3])
  %c: f32[s0, 3] = aten.sin.default(%b)
  %d: f32[3, s0] strides [1, 3] = aten.t.default(%c)
  output %d, %b
)");
  for (const char* ops : {"['aten.relu.default']", "['aten.relu.default', 'aten.view.default']",
                          "['aten.sin.default', 'aten.t.default']", "['aten.view.default']"}) {
    auto artifact = compiled("regions", graph, std::string("ops = ") + ops);
    for (int64_t rows : {4, 7}) {
      Tensor x = randn({rows, 3});
      auto out = run(*artifact, *graph, {x}, {rows});
      EXPECT_EQ(contiguous(out[0]).to_vector<float>(),
                contiguous(sin(relu(x)).t()).to_vector<float>());
      EXPECT_EQ(run(*artifact, *graph, {x})[1].to_vector<float>(), relu(x).to_vector<float>());
    }
  }
}

TEST_F(Regions, SizesThatOnlyARunShowsCrossToo) {
  auto graph = graph_of(R"(
  symbol u0 in [0, inf] from size(%n, 0)
  input %x: f32[4]
  %n: i64[u0, 1] = aten.nonzero.default(%x)
  %z: f32[u0] = aten.zeros.default([u0], dtype=f32)
  %o: f32[u0] = aten.cos.default(%z)
  output %o, %n
)");
  for (const char* op : {"aten.nonzero.default", "aten.zeros.default", "aten.cos.default"}) {
    auto artifact = compiled("regions", graph, std::string("ops = ['") + op + "']");
    auto out = run(*artifact, *graph, {tensor({1.0f, 0.0f, 2.0f, 3.0f})});
    EXPECT_EQ(out[0].to_vector<float>(), std::vector<float>(3, 1));
    EXPECT_EQ(out[1].size(0).guard_int(), 3);
  }
}

TEST_F(Regions, NumbersThatNodesComputeCrossToo) {
  auto graph = graph_of(R"(
  symbol u0 in [0, inf] from %i
  input %k: i64[]
  %i: int u0 = aten.item.default(%k)
  %p: bool u0 >= 3 = sym.ge.default(%i, 3)
  aten._assert_scalar.default(%p, "too few")
  %z: f32[u0] = aten.ones.default([u0], dtype=f32)
  %s: f32[] = aten.sum.default(%z)
  output %s
)");
  for (const char* ops : {"['aten.item.default', 'sym.ge.default']", "['aten.item.default']",
                          "['sym.ge.default']", "['aten._assert_scalar.default']",
                          "['aten.ones.default', 'aten.sum.default']", "['aten.sum.default']"}) {
    auto artifact = compiled("regions", graph, std::string("ops = ") + ops);
    EXPECT_EQ(run(*artifact, *graph, {tensor(std::vector<int64_t>{4}, IntList{})})[0].item<float>(),
              4)
        << ops;
    EXPECT_THAT(
        error_of([&] { run(*artifact, *graph, {tensor(std::vector<int64_t>{2}, IntList{})}); }),
        HasSubstr("too few"));
  }
}

TEST_F(Regions, PartsOfListsCrossOneByOne) {
  auto graph = graph_of(R"(
  input %x: f32[6]
  %a: f32[2], %b: f32[2] offset 2, %c: f32[2] offset 4 = aten.split.Tensor(%x, 2)
  %d: f32[4] = aten.cat.default([%c, %a])
  output %d, %b
)");
  for (const char* op : {"aten.split.Tensor", "aten.cat.default"}) {
    auto artifact = compiled("regions", graph, std::string("ops = ['") + op + "']");
    auto out = run(*artifact, *graph, {arange(6, Dtype::f32)});
    EXPECT_THAT(out[0].to_vector<float>(), ElementsAre(4, 5, 0, 1));
  }
}

TEST_F(Regions, AnOutputThatIsAnInputIsTheInput) {
  auto graph = graph_of(R"(
  input %x: f32[2]
  %a: f32[2] = aten.relu.default(%x)
  %b: f32[2] = aten.add_.Tensor(%x, %a)
  %c: f32[2] = aten.sin.default(%b)
  output %x, %b, %c
)");
  for (const char* op : {"aten.relu.default", "aten.add_.Tensor", "aten.sin.default"}) {
    auto artifact = compiled("regions", graph, std::string("ops = ['") + op + "']");
    Tensor x = tensor({1.0f, -1.0f});
    auto out = run(*artifact, *graph, {x});
    EXPECT_TRUE(out[0].is_same(x));
    EXPECT_TRUE(out[1].is_same(x));
    EXPECT_EQ(out[2].to_vector<float>(), sin(x).to_vector<float>());
    EXPECT_THAT(x.to_vector<float>(), ElementsAre(2, -1));
  }
}

TEST_F(Regions, StaticAndMutatedInputsAreThoseOfThePiece) {
  CompileRequest request;
  request.graph = graph_of(R"(
  input %x: f32[2]
  input %w: f32[2]
  input %s: f32[2]
  %a: f32[2] = aten.relu.default(%x)
  %b: f32[2] = aten.mul.Tensor(%a, %w)
  %c: f32[2] = aten.add_.Tensor(%s, %b)
  output %b
)");
  request.static_inputs = {1};
  request.mutated_inputs = {2};
  request.options_toml = "ops = ['aten.mul.Tensor', 'aten.add_.Tensor']";
  request.compile_id = "0/0";
  compile_with_backend("regions", request);
  EXPECT_THAT(log_->graphs(), HasSubstr("static 1 mutated 1"));
  log_->clear();
  request.options_toml = "ops = ['aten.mul.Tensor']";
  compile_with_backend("regions", request);
  EXPECT_THAT(log_->graphs(), HasSubstr("static 1 mutated 0"));
}

TEST_F(Regions, ValuesAreReleasedAfterTheirLastUse) {
  auto graph = graph_of(R"(
  input %x: f32[1000]
  %a: f32[1000] = aten.sin.default(%x)
  %b: f32[1000] = aten.relu.default(%a)
  %c: f32[1000] = aten.sin.default(%b)
  %d: f32[1000] = aten.relu.default(%c)
  output %d
)");
  auto artifact = compiled("regions", graph, "ops = ['aten.sin.default']");
  Tensor x = randn({1000});
  detail::TensorHead* head = x.head();
  Tensor held = x;
  auto out = run(*artifact, *graph, {std::move(x)});
  EXPECT_EQ(head->references.load(), 1);
  EXPECT_EQ(out[0].head()->references.load(), 1);
}

TEST_F(Regions, CallsMayRunAtOnce) {
  auto graph = graph_of(chain);
  auto artifact = compiled("regions", graph, "ops = ['aten.add.Tensor', 'aten.mul.Tensor']");
  Tensor expected = run(*artifact, *graph, {tensor({0.5f, 2.0f})})[0];
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 200; ++i)
        wrong += run(*artifact, *graph, {tensor({0.5f, 2.0f})})[0].to_vector<float>() !=
                 expected.to_vector<float>();
    });
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(wrong.load(), 0);
}

// ---- models

TEST_F(Regions, ModelsRunThroughThem) {
  for (const char* name : {"mlp_digits", "cnn_digits"}) {
    std::string path = std::string(TENON_TEST_DATA_DIR) + "/models/" + name + ".pt2";
    bool is_image = std::string(name) == "cnn_digits";
    Tensor x = is_image ? randn({8, 1, 8, 8}) : randn({8, 64});
    std::vector<float> expected =
        Tensor(load(path, {.backend = "aot_eager"})(x)).to_vector<float>();
    for (int64_t seed : {1, 2, 3}) {
      config::set("regions_aot.seed", seed);
      auto model = load(path, {.backend = "regions_aot"});
      EXPECT_EQ(Tensor(model(x)).to_vector<float>(), expected) << name << " " << seed;
    }
  }
  config::unset("regions_aot.seed");
  EXPECT_GT(report::counter("backend.regions").value(), 3);
}

TEST_F(Regions, CompiledCallablesRunThroughThem) {
  config::set("regions.ops", std::vector<std::string>{"aten.mul.Tensor"});
  auto f = compile([](const Tensor& x) { return sin(x * x) * x; },
                   {.backend = "regions", .dynamic = true});
  for (int64_t n : {3, 5}) {
    Tensor x = randn({n});
    EXPECT_EQ(f(x).to_vector<float>(), (sin(x * x) * x).to_vector<float>());
  }
  EXPECT_EQ(f.stats().compiles, 1);
  config::unset("regions.ops");
}

}  // namespace
}  // namespace tenon
