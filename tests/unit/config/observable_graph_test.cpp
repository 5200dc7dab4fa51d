// What flags of graphs, fakes and backends do.
#include "compile/compile_graph.h"
#include "core/sym/shape_env.h"
#include "core/threads/thread_pool.h"
#include "graph/interpret.h"
#include "graph/meta_cache.h"
#include "graph/record.h"
#include "graph/text/parse.h"
#include "graph/verify.h"
#include "ops/op_table.h"
#include "runtime/checked_artifact.h"
#include "runtime/overrides.h"
#include "unit/config/observable_fixture.h"

#include <tenon/autograd.h>
#include <tenon/compiler.h>
#include <tenon/joint_pass.h>

#include <gmock/gmock.h>

#include <cmath>
#include <thread>

namespace tenon {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

TEST_F(Observable, MinimumCallCountLeavesSmallGraphsToTheInterpreter) {
  auto f = [] { return compile([](const Tensor& x) { return x.relu() + 1; }, keeping); };
  {
    auto scope = config::patch({{"dynamo.minimum_call_count", 3}});
    EXPECT_EQ(f()(ones({2})).to_vector<float>(), (std::vector<float>{2, 2}));
    EXPECT_EQ(graphs().size(), 0u);
  }
  f()(ones({2}));
  EXPECT_EQ(graphs().size(), 1u);
}

TEST_F(Observable, AllowEmptyGraphsAsksTheBackendForThemToo) {
  auto calls = [](std::string_view key, config::Value value) {
    auto scope = config::Patch({{key, std::move(value)}});
    graphs().clear();
    auto f = compile([](const Tensor& x) { return x; }, keeping);
    Tensor x = ones({2});
    EXPECT_TRUE(f(x).is_same(x));
    EXPECT_TRUE(f(x).is_same(x));
    return graphs().size();
  };
  EXPECT_EQ(calls("dynamo.allow_empty_graphs", false), 0u);
  EXPECT_EQ(calls("dynamo.allow_empty_graphs", true), 1u);
  EXPECT_EQ(calls("dynamo.minimum_call_count", 0), 1u);
}

struct Doubled : autograd::Function<Doubled> {
  static std::vector<Tensor> forward(autograd::Context&, const std::vector<Tensor>& in) {
    return {in[0] * 2.0};
  }
  static std::vector<Tensor> backward(autograd::Context&, std::vector<Tensor> grads) {
    return {grads[0] * 3.0};  // wrong on purpose, so that it is seen which derivative ran
  }
};

TEST_F(Observable, CaptureAutogradFunctionOffBreaksGraphsAtFunctions) {
  auto breaks = [](bool traces) {
    auto scope = config::patch({{"dynamo.capture_autograd_function", traces}});
    auto f = compile([](const Tensor& x) { return (Doubled::apply({x + 1})[0] * x).sum(); },
                     {.backend = "aot_eager"});
    for (int call = 0; call < 2; ++call) {
      Tensor x = full({2}, 5.0).requires_grad_();
      Tensor y = f(x);
      EXPECT_EQ(y.item<float>(), 2 * 2 * 6 * 5);
      y.backward();
      EXPECT_EQ(x.grad().to_vector<float>(), (std::vector<float>{27, 27}));  // 3 x + 2 (x + 1)
    }
    return f.stats().graph_breaks;
  };
  EXPECT_EQ(breaks(true), 0);
  EXPECT_GT(breaks(false), 0);
}

TEST_F(Observable, DeadCodeEliminationRemovesAnUnusedSine) {
  auto nodes = [](bool remove) {
    auto scope = config::patch({{"dynamo.dead_code_elimination", remove}});
    auto f = compile(
        [](const Tensor& x) {
          x.sin();
          return x + 1;
        },
        keeping);
    f(ones({2}));
    return n_nodes();
  };
  EXPECT_EQ(nodes(true), 1u);
  EXPECT_EQ(nodes(false), 2u);
}

TEST_F(Observable, CseOfFunctorchMergesEqualExpressions) {
  auto nodes = [](bool merge) {
    auto scope = config::patch({{"functorch.cse", merge}});
    auto graph = parse_graph(R"(tng 1
graph {
  input %x: f32[2]
  %a: f32[2] = aten.sin.default(%x)
  %b: f32[2] = aten.sin.default(%x)
  %c: f32[2] = aten.mul.Tensor(%a, %b)
  output %c
}
)");
    return graph_for_backend(graph, "aot_eager")->nodes().size();
  };
  ASSERT_EQ(message_of([&] { nodes(true); }), "no error");
  EXPECT_EQ(nodes(true), 2u);
  EXPECT_EQ(nodes(false), 3u);
}

TEST_F(Observable, UseLazyGraphModuleBuildsPlansAtTheFirstRun) {
  auto plans_before_run = [](bool lazy) {
    auto scope = config::patch({{"dynamo.use_lazy_graph_module", lazy}});
    auto graph = parse_graph("tng 1\ngraph {\n  input %x: f32[2]\n  output %x\n}\n");
    report::counter("graph.finalize").reset();
    auto artifact = interpreter_artifact(graph);
    int64_t before = report::counter("graph.finalize").value();
    Tensor x = ones({2}), out;
    detail::TensorHead* heads[] = {x.head()};
    artifact->call(heads, {}, {&out, 1});
    EXPECT_EQ(report::counter("graph.finalize").value(), 1);
    return before;
  };
  EXPECT_EQ(plans_before_run(true), 0);
  EXPECT_EQ(plans_before_run(false), 1);
}

TEST_F(Observable, AllowRnnBringsRecurrentLayersIntoTheGraph) {
  auto breaks = [](bool allow) {
    auto scope = config::patch({{"dynamo.allow_rnn", allow}});
    auto f = compile(
        [](const Tensor& x, const std::vector<Tensor>& weights) {
          Tensor h = zeros({1, 1, 3});
          return std::get<0>(rnn_tanh(x * 2, h, weights, true, 1, 0.0, false, false, true)) + 1;
        },
        keeping);
    auto plain = [](const Tensor& x, const std::vector<Tensor>& weights) {
      return std::get<0>(
          rnn_tanh(x * 2, zeros({1, 1, 3}), weights, true, 1, 0.0, false, false, true));
    };
    std::vector<Tensor> weights = {ones({3, 2}), ones({3, 3}), ones({3}), ones({3})};
    Tensor x = ones({1, 4, 2});
    Tensor found = f(x, weights) - 1 - plain(x, weights);
    EXPECT_LT(found.abs().max().item<float>(), 1e-5);
    return f.stats().graph_breaks;
  };
  EXPECT_EQ(breaks(false), 1);
  EXPECT_EQ(breaks(true), 0);
}

TEST_F(Observable, FakeTensorCacheEnabledRemembersMetaResults) {
  auto hits = [](bool enabled) {
    auto scope = config::patch({{"dynamo.fake_tensor_cache_enabled", enabled}});
    forget_meta_results();
    report::counter("graph.meta_cache_hits").reset();
    auto f = compile([](const Tensor& x) { return x.sin() + x.sin(); }, keeping);
    f(ones({2}));
    return report::counter("graph.meta_cache_hits").value();
  };
  EXPECT_EQ(hits(true), 1);
  EXPECT_EQ(hits(false), 0);
}

TEST_F(Observable, FakeTensorCacheCrosscheckFindsAMetaFunctionThatChangesItsMind) {
  static int64_t size = 2;
  size = 2;
  auto meta = [](const CallArgs& call) {
    call.results[0] =
        Value::own(make_fake(contiguous_meta(list_of(Dims{SymInt(size++)}), Dtype::f32)));
  };
  Tensor x = make_fake(contiguous_meta(list_of(Dims{SymInt(5)}), Dtype::f32));
  auto ask = [&] {
    Value args[] = {Value::of(x)}, result[1];
    run_meta_cached({&entry_of(op_id("aten.sin.default")), args, result, 1, 1}, meta);
    return take<Tensor>(result[0]).size(0).word();
  };
  forget_meta_results();
  EXPECT_EQ(ask(), 2);
  EXPECT_EQ(ask(), 2) << "the meta function would say 3";
  auto scope = config::patch({{"dynamo.fake_tensor_cache_crosscheck_enabled", true}});
  EXPECT_THAT(message_of(ask), HasSubstr("aten.sin.default gives another answer than before"));
  forget_meta_results();
}

TEST_F(Observable, FakeTensorAllowMetaOffRefusesTensorsOnTheDeviceMeta) {
  auto f = [] {
    return compile(
        [](const Tensor& x) {
          Tensor shape_only = empty({3}, Dtype::f32, {}, Device{DeviceType::meta, 0});
          return x + static_cast<double>(shape_only.size(0).word());
        },
        keeping);
  };
  EXPECT_EQ(f()(zeros({1})).to_vector<float>(), std::vector<float>{3});
  auto scope = config::patch({{"functorch.fake_tensor_allow_meta", false}});
  EXPECT_THAT(message_of([&] { f()(zeros({1})); }),
              HasSubstr("functorch.fake_tensor_allow_meta = false"));
}

TEST_F(Observable, FakeTensorAllowUnsafeDataPtrAccessOffMakesItAnError) {
  Tensor fake = make_fake(contiguous_meta(list_of(Dims{SymInt(2)}), Dtype::f32));
  EXPECT_EQ(fake.data(), nullptr);
  auto scope = config::patch({{"functorch.fake_tensor_allow_unsafe_data_ptr_access", false}});
  EXPECT_THAT(message_of([&] { fake.data(); }), HasSubstr("has no data"));
}

TEST_F(Observable, FakeTensorCrossrefComparesResultsWithTheGraph) {
  auto graph = parse_graph(R"(tng 1
graph {
  input %x: f32[2]
  %y: f32[2] = aten.sin.default(%x)
  output %y
}
)");
  graph->value(graph->node(0).first_result).meta.dtype = Dtype::f64;  // a wrong meta function
  auto run = [&](const char* which) {
    auto scope = config::patch({{"functorch.fake_tensor_crossref", which}});
    auto artifact = checked_artifact(graph, interpreter_artifact(graph), {});
    Tensor x = ones({2}), out;
    detail::TensorHead* heads[] = {x.head()};
    return message_of([&] { artifact->call(heads, {}, {&out, 1}); });
  };
  EXPECT_EQ(run("false"), "no error");
  EXPECT_EQ(run("custom_ops"), "no error");
  EXPECT_THAT(run("all"), HasSubstr("aten.sin.default: its meta function says"));
}

TEST_F(Observable, DebugAssertDerivesTheMetadataOfLoweredGraphsAgain) {
  auto graph = parse_graph(R"(tng 1
graph {
  input %x: f32[2]
  %y: f32[2] = aten.sin.default(%x)
  output %y
}
)");
  auto scope = config::patch({{"functorch.debug_assert", true}});
  report::counter("aot.verified_graphs").reset();
  ASSERT_EQ(message_of([&] { compile_graph(graph, {.backend = "debug_nop"}); }), "no error");
  EXPECT_EQ(report::counter("aot.verified_graphs").value(), 1);
  auto off = config::patch({{"functorch.debug_assert", false}});
  compile_graph(graph, {.backend = "debug_nop"});
  EXPECT_EQ(report::counter("aot.verified_graphs").value(), 1);
  compile_graph(graph, {.backend = "aot_eager"});  // whose manifest asks for it
  EXPECT_EQ(report::counter("aot.verified_graphs").value(), 2);
}

TEST_F(Observable, MaxAliasedInputsWithDynamicShapesBoundsSharedMemory) {
  auto run = [](int64_t limit, std::optional<bool> dynamic) {
    auto scope =
        config::patch({{"functorch._max_aliased_inputs_with_dynamic_shapes_enabled", limit}});
    auto f = compile(
        [](std::vector<Tensor> parts) {
          parts[0].add_(1);
          Tensor sum = parts[0] * 1;
          for (size_t i = 1; i < parts.size(); ++i) sum = sum + parts[i];
          return sum;
        },
        {.backend = "keeping", .dynamic = dynamic});
    Tensor buffer = ones({24});
    std::vector<Tensor> parts;
    for (int64_t i = 0; i < 6; ++i) parts.push_back(buffer.slice(0, 4 * i, 4 * i + 4));
    return message_of([&] { f(parts); });
  };
  EXPECT_THAT(run(5, true), HasSubstr("6 inputs share memory"));
  EXPECT_EQ(run(6, true), "no error");
  EXPECT_EQ(run(5, false), "no error");
}

TEST_F(Observable, DefaultBackendIsThatOfCompileWithoutOne) {
  auto scope = config::patch({{"compiler.default_backend", "keeping"}});
  compile([](const Tensor& x) { return x + 1; })(ones({2}));
  EXPECT_EQ(graphs().size(), 1u);
  auto unknown = config::patch({{"compiler.default_backend", "keping"}});
  EXPECT_THAT(message_of([] { compile([](const Tensor& x) { return x + 1; })(ones({2})); }),
              HasSubstr("there is no backend 'keping'; the nearest are keeping"));
}

TEST_F(Observable, ThreadsIsTheSizeOfThePool) {
  int before = num_threads();
  config::set("compiler.threads", 3);
  EXPECT_EQ(num_threads(), 3);
  config::set("compiler.threads", 1);
  EXPECT_EQ(num_threads(), 1);
  config::set("compiler.threads", before);
  EXPECT_EQ(num_threads(), before);
}

TEST_F(Observable, CompatSeedTakesTheDefaultsOfTheSeed) {
  auto versions = [](const char* compat) {
    auto scope = config::patch({{"compiler.compat", compat}});
    auto f = compile([](const Tensor& x, SymFloat n) { return x * n; }, keeping);
    for (double n : {0.5, 0.25, 0.125}) f(ones({1}), n);
    return f.stats().compiles;
  };
  EXPECT_EQ(versions("2.13"), 2) << "the second float becomes a symbol";
  EXPECT_EQ(versions("seed"), 3) << "specialize_float is true there";
}

TEST_F(Observable, DebugBackendOverrideChangesTheBackendOfSomeCallables) {
  auto f = compile([](const Tensor& x) { return x + 1; }, {.backend = "failing"});
  std::string text = f.explain();  // "callable number 12 with ..."
  std::string number = text.substr(16, text.find(' ', 16) - 16);
  auto other = config::patch({{"dynamo.debug_backend_override", ">1000000:keeping"}});
  EXPECT_THROW(f(ones({2})), BackendError);
  auto scope = config::patch({{"dynamo.debug_backend_override", number + ":keeping"}});
  EXPECT_EQ(message_of([&] { f(ones({2})); }), "no error");
  auto unknown = config::patch({{"dynamo.debug_backend_override", ">=0:keping"}});
  EXPECT_THAT(message_of([&] { f(ones({2, 2})); }), HasSubstr("there is no backend 'keping'"));
}

TEST_F(Observable, DebugDynamoConfigOverrideChangesFlagsOfSomeCallables) {
  auto f = [] {
    return compile(
        [](const Tensor& x) {
          x.sin();
          return x + 1;
        },
        keeping);
  };
  auto scope =
      config::patch({{"dynamo.debug_dynamo_config_override", ">=0:dead_code_elimination=false"}});
  f()(ones({2}));
  EXPECT_EQ(n_nodes(), 2u);
  auto none = config::patch(
      {{"dynamo.debug_dynamo_config_override", ">1000000:dead_code_elimination=false"}});
  f()(ones({2}));
  EXPECT_EQ(n_nodes(), 1u);
  auto wrong = config::patch({{"dynamo.debug_dynamo_config_override", ">=0:no_flag=false"}});
  EXPECT_THAT(message_of([&] { f()(ones({2})); }), HasSubstr("dynamo.no_flag does not exist"));
}

TEST_F(Observable, OverridesAreCheckedAlsoWhereTheyDoNotHold) {
  auto error = [](const char* flag, const char* rules) {
    auto scope = config::patch({{flag, rules}});
    return message_of([] { compile([](const Tensor& x) { return x + 1; }, keeping)(ones({2})); });
  };
  EXPECT_THAT(error("dynamo.debug_backend_override", "5-1:keeping"),
              HasSubstr("`5-1` is not a filter"));
  EXPECT_THAT(error("dynamo.debug_backend_override", ">1000000:keping"),
              HasSubstr("there is no backend 'keping'"));
  constexpr const char* rules = "dynamo.debug_dynamo_config_override";
  EXPECT_THAT(error(rules, ">1000000:no_flag=1"),
              HasSubstr("dynamo.no_flag does not exist; did you mean"));
  EXPECT_THAT(error(rules, ">1000000:no_flag=1"), HasSubstr(message("set by {} = ", rules)));
}

TEST_F(Observable, OverridesTakeListsRangesAndComparisons) {
  auto found = [](std::string_view rules, int64_t n) {
    return override_for("the flag", rules, n).value_or("none");
  };
  EXPECT_EQ(found("0,5:a;10-20:b;>30:c", 5), "a");
  EXPECT_EQ(found("0,5:a;10-20:b;>30:c", 10), "b");
  EXPECT_EQ(found("0,5:a;10-20:b;>30:c", 21), "none");
  EXPECT_EQ(found("0,5:a;10-20:b;>30:c", 31), "c");
  EXPECT_EQ(found("<=5:a;<7:b;>=9:c", 6), "b");
  EXPECT_EQ(found("<=5:a;<7:b;>=9:c", 9), "c");
  for (const char* wrong : {"eager", "5", "5:", ":eager", "x:eager", "1-:eager", ">:eager"})
    EXPECT_THAT(message_of([&] { found(wrong, 1); }), HasSubstr("is not a filter")) << wrong;
}

TEST_F(Observable, LogLinesThatWaitHaveTheTextOfTheirCall) {
  auto scope = config::Patch(
      {{"dynamo.reorderable_logging_functions", std::vector<std::string>{"app.step"}}});
  std::vector<std::string> lines;
  register_log_fn("app.step", [&](std::string_view text, std::span<const Tensor>) {
    lines.emplace_back(text);
  });
  int n = 0;
  auto f = compile(
      [&](const Tensor& x) {
        Tensor y = x * 2;
        call_log_fn("app.step", "step " + std::to_string(n++), {y});
        return y + 1;
      },
      keeping);
  for (int i = 0; i < 3; ++i) f(ones({2}));
  register_log_fn("app.step", {});
  EXPECT_EQ(lines, (std::vector<std::string>{"step 0", "step 1", "step 2"}));
  EXPECT_EQ(f.stats().compiles, 1);
}

TEST_F(Observable, LoggingFunctionsCutWaitOrAreLeftOut) {
  struct Seen {
    std::vector<float> logged;
    int64_t breaks;
  };
  auto run = [](std::string_view flag) {
    std::vector<std::string> names = {"app.print"};
    auto scope = config::Patch({{flag.empty() ? "dynamo.reorderable_logging_functions" : flag,
                                 flag.empty() ? std::vector<std::string>{} : names}});
    std::vector<float> logged;
    register_log_fn("app.print", [&](std::string_view text, std::span<const Tensor> tensors) {
      EXPECT_EQ(text, "y is");
      logged.push_back(tensors[0].to_vector<float>()[0]);
    });
    auto f = compile(
        [](const Tensor& x) {
          Tensor y = x * 2;
          call_log_fn("app.print", "y is", {y});
          call_log_fn("app.print", "y is", {x});
          return y + 1;
        },
        keeping);
    for (double value : {1.0, 2.0, 3.0})
      EXPECT_EQ(f(full({1}, value)).to_vector<float>()[0], static_cast<float>(2 * value + 1));
    register_log_fn("app.print", {});
    return Seen{logged, f.stats().graph_breaks};
  };
  std::vector<float> all = {2, 1, 4, 2, 6, 3};
  EXPECT_EQ(run("").logged, all);
  EXPECT_GT(run("").breaks, 0);
  EXPECT_EQ(run("dynamo.reorderable_logging_functions").logged, all);
  EXPECT_EQ(run("dynamo.reorderable_logging_functions").breaks, 0);
  EXPECT_EQ(run("dynamo.ignore_logging_functions").logged, std::vector<float>{});
  EXPECT_EQ(run("dynamo.ignore_logging_functions").breaks, 0);
  EXPECT_THAT(message_of([] { call_log_fn("app.prnt", ""); }),
              HasSubstr("there is no log function 'app.prnt'"));
}

TEST_F(Observable, ErrorOnNestedFxTraceRefusesCompiledCallablesInJointPasses) {
  register_backend("lowered", &keep, {"debug"}, Stage::inference);
  auto f = compile([](const Tensor& x) { return x.sin() + 1; }, keeping);
  register_joint_pass("test.nested", [&](JointGraph& graph) {
    graph.rewrite([&](const JointCall& call) -> std::vector<Tensor> {
      if (call.kind != JointCall::Kind::tangent) return {};
      return {f(call.results[0])};
    });
  });
  auto gradient = [] {
    Tensor x = ones({2}).requires_grad_();
    auto train = compile([](const Tensor& t) { return (t * 2).sum(); }, {.backend = "lowered"});
    train(x).backward();
    return x.grad()[0].item<float>().value();
  };
  auto pass = config::patch({{"functorch.joint_custom_pass", "test.nested"}});
  EXPECT_THAT(message_of(gradient), HasSubstr("while a graph tracer records"));
  auto scope = config::patch({{"dynamo.error_on_nested_fx_trace", false}});
  EXPECT_NEAR(gradient(), 2 * (std::sin(1) + 1), 1e-5);
  EXPECT_EQ(f.stats().compiles, 0);
}

TEST_F(Observable, ErrorOnNestedFxTraceLeavesOtherRecordingsAlone) {
  auto f = compile([](const Tensor& x) { return x.sin() + 1; }, keeping);
  auto traced_nodes = [&] {
    GraphRecorder recorder(ShapeEnv::make());
    Tensor x = recorder.add_input(contiguous_meta(list_of(Dims{SymInt(2)}), Dtype::f32));
    RecordScope scope(recorder);
    f(x);
    return recorder.graph().nodes().size();
  };
  EXPECT_EQ(traced_nodes(), 2u) << "as lowering opens an op that calls it";
  EXPECT_EQ(f.stats().compiles, 0);
  auto outer = compile([&f](const Tensor& x) { return f(x) * 2; }, keeping);
  outer(ones({2}));
  EXPECT_EQ(n_nodes(), 3u) << "a capture takes it in";
}

TEST_F(Observable, ReplayRecordEnabledWritesWhatLedToAnError) {
  auto f = compile([](const Tensor& x) { return x.relu().mm(x.relu()); }, keeping);
  EXPECT_NE(message_of([&] { f(ones({2, 3})); }), "no error");
  EXPECT_THAT(dumps(), Not(Contains("replay.tng")));
  auto scope = config::patch({{"dynamo.replay_record_enabled", true}});
  std::string error = message_of([&] { f(ones({2, 3})); });
  ParseOptions as_recorded;
  as_recorded.check_metadata = false;
  auto record = parse_graph(dump("replay.tng"), as_recorded);
  EXPECT_EQ(record->nodes().size(), 3u) << "with the operation that failed";
  std::vector<std::string> problems = meta_problems_of(*record);
  ASSERT_EQ(problems.size(), 1u);
  EXPECT_THAT(problems[0], HasSubstr(error));
}

TEST_F(Observable, DdpOptimizationModeListsWhatOptimizeDdpTakes) {
  auto modes = config::get_as<std::vector<std::string>>("dynamo._ddp_optimization_mode");
  std::vector<std::string> choices = config::info("dynamo.optimize_ddp").choices;
  for (const std::string& mode : modes) EXPECT_THAT(choices, Contains(mode));
  EXPECT_EQ(choices.size(), modes.size() + 2) << "and true and false";
}

}  // namespace
}  // namespace tenon
