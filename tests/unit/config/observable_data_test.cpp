// What flags of data-dependent numbers and sizes do.
#include "graph/text/print.h"
#include "unit/config/observable_fixture.h"

#include <tenon/library.h>

#include <gmock/gmock.h>

namespace tenon {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

Tensor number(int64_t n) { return full({}, n, Dtype::i64); }

// Of the graph that was compiled last.
std::string graph_text(const std::vector<std::shared_ptr<Graph>>& graphs) {
  return graphs.empty() ? "" : to_text(*graphs.back());
}

TEST_F(Observable, CaptureScalarOutputsKeepsItemsInTheGraph) {
  auto run = [](bool capture, Options options) {
    auto scope = config::patch({{"dynamo.capture_scalar_outputs", capture}});
    auto f = compile(
        [](const Tensor& x, const Tensor& w) {
          SymInt n = (x + 0).item<int64_t>();
          return w * 2 + n;
        },
        std::move(options));
    for (int64_t n : {3, 4, 5})
      EXPECT_EQ(f(number(n), ones({1})).to_vector<float>()[0], static_cast<float>(n + 2));
    return f.stats();
  };
  EXPECT_GT(run(false, keeping).graph_breaks, 0);
  EXPECT_EQ(run(true, keeping).graph_breaks, 0);
  EXPECT_EQ(run(true, keeping).compiles, 1);
  EXPECT_EQ(run(false, {.backend = "keeping", .fullgraph = true}).compiles, 1)
      << "always so under fullgraph";
}

TEST_F(Observable, CaptureDynamicOutputShapeOpsKeepsThemInTheGraph) {
  auto run = [](bool capture) {
    auto scope = config::patch({{"dynamo.capture_dynamic_output_shape_ops", capture}});
    auto f = compile([](const Tensor& x) { return x.nonzero() * 2; }, keeping);
    for (double v : {1.0, 0.0, 1.0}) EXPECT_EQ(f(full({3}, v)).size(0), SymInt(v == 0 ? 0 : 3));
    return f.stats();
  };
  EXPECT_GT(run(false).graph_breaks, 0);
  EXPECT_EQ(run(true).graph_breaks, 0);
  EXPECT_EQ(run(true).compiles, 1);
  EXPECT_THAT(graph_text(graphs()), HasSubstr("aten.nonzero"));
}

TEST_F(Observable, DoNotEmitRuntimeAssertsKeepsFactsAndLeavesAssertionsOut) {
  auto run = [](bool leave_out) {
    auto scope = config::patch({{"dynamo.do_not_emit_runtime_asserts", leave_out}});
    auto f = compile(
        [](const Tensor& x) {
          SymInt n = (x + 0).item<int64_t>();
          check(n >= 2);
          return ones({1}) * (n > 1 ? 5 : 7);
        },
        {.backend = "keeping", .fullgraph = true});
    EXPECT_EQ(f(number(3)).to_vector<float>()[0], 5) << "the branch follows from the check";
    return message_of([&] { f(number(0)); });
  };
  EXPECT_THAT(run(false), HasSubstr("assertion failed: u0 >= 2"));
  EXPECT_THAT(graph_text(graphs()), HasSubstr("_assert_scalar"));
  EXPECT_EQ(run(true), "no error");
  EXPECT_THAT(graph_text(graphs()), Not(HasSubstr("_assert_scalar")));
}

TEST_F(Observable, RewriteAssertWithTorchAssertMakesChecksOfTensorsNodes) {
  auto run = [](bool rewrite) {
    auto scope = config::patch({{"dynamo.rewrite_assert_with_torch_assert", rewrite}});
    auto f = compile(
        [](const Tensor& x) {
          check((x > 0).all(), "x is positive");
          return x * 2;
        },
        {.backend = "keeping", .fullgraph = true});
    std::string first = message_of([&] { f(ones({2})); });
    return first == "no error" ? message_of([&] { f(zeros({2})); }) : first;
  };
  EXPECT_THAT(run(true), HasSubstr("assertion failed: x is positive"));
  EXPECT_THAT(graph_text(graphs()), HasSubstr("_assert_async"));
  EXPECT_THAT(run(false), HasSubstr("GraphBreakError"));
}

TEST_F(Observable, PreferDeferredRuntimeAssertsOverGuardsAssertsInsideTheGraph) {
  struct Seen {
    int64_t compiles;
    std::string error, guards;
  };
  auto run = [](bool prefer) {
    auto scope = config::patch({{"dynamo.prefer_deferred_runtime_asserts_over_guards", prefer}});
    auto f = compile(
        [](const Tensor& x) {
          return x.view({x.size(0) / 2, 2}).sum(1);
        },
        {.backend = "keeping", .dynamic = true});
    for (int64_t n : {8, 10, 12}) EXPECT_EQ(f(ones({n})).size(0), SymInt(n / 2));
    std::string error = message_of([&] { f(ones({9})); });
    return Seen{f.stats().compiles, error, f.explain()};
  };
  Seen guarded = run(false), asserted = run(true);
  EXPECT_EQ(guarded.compiles, 1);
  EXPECT_EQ(asserted.compiles, 1);
  EXPECT_THAT(guarded.error, Not(HasSubstr("assertion failed")));
  EXPECT_THAT(asserted.error, HasSubstr("assertion failed"));
}

TEST_F(Observable, AutomaticDynamicShapesMarkAsUnbackedServesZeroAndOne) {
  auto versions = [](const char* as) {
    auto scope = config::patch({{"dynamo.automatic_dynamic_shapes_mark_as", as}});
    auto f = compile([](const Tensor& x) { return x * 2; }, keeping);
    for (int64_t n : {3, 4, 1, 0}) EXPECT_EQ(f(ones({n})).size(0), SymInt(n));
    return f.stats().compiles;
  };
  EXPECT_EQ(versions("dynamic"), 4);
  EXPECT_EQ(versions("unbacked"), 2);
}

TEST_F(Observable, UnbackedSourcesHaveNoExample) {
  auto versions = [](std::vector<std::string> names) {
    auto scope = config::patch({{"compiler.unbacked_sources", std::move(names)}});
    auto f = compile([](const Tensor& x) { return x * 2; }, keeping);
    for (int64_t n : {3, 4, 1, 0}) EXPECT_EQ(f(ones({n})).size(0), SymInt(n));
    return f.stats().compiles;
  };
  EXPECT_EQ(versions({}), 4);
  EXPECT_EQ(versions({"arg0"}), 1);
  EXPECT_EQ(versions({"arg0.size(0)"}), 1);
  EXPECT_EQ(versions({"arg1"}), 4);
}

TEST_F(Observable, BackedSizeObliviousTreatsZeroAndOneLikeOtherSizes) {
  auto versions = [](bool oblivious) {
    auto scope = config::patch({{"shapes.backed_size_oblivious", oblivious}});
    auto f =
        compile([](const Tensor& x) { return x * 2; }, {.backend = "keeping", .dynamic = true});
    for (int64_t n : {1, 3, 0, 4}) EXPECT_EQ(f(ones({n})).size(0), SymInt(n));
    return f.stats().compiles;
  };
  EXPECT_EQ(versions(false), 3);
  EXPECT_EQ(versions(true), 1);
}

TEST_F(Observable, NoDataDependentGraphBreakMakesABranchAnError) {
  auto run = [](bool forbid) {
    auto scope = config::patch({{"dynamo.capture_scalar_outputs", true},
                                {"shapes.no_data_dependent_graph_break", forbid}});
    auto f = compile(
        [](const Tensor& x) {
          SymInt n = (x + 0).item<int64_t>();
          return n > 3 ? x + 1 : x - 1;
        },
        keeping);
    return message_of([&] { EXPECT_EQ(f(number(5)).item<int64_t>(), 6); });
  };
  EXPECT_EQ(run(false), "no error");
  EXPECT_THAT(run(true), HasSubstr("Could not guard on data-dependent expression"));
}

TENON_LIBRARY(observable, lib) {
  for (const char* name : {"itself", "itself_again"})
    lib.op(std::string(name) + "(Tensor x) -> Tensor").like(0).kernel([](const Tensor& x) {
      return x.view({-1});
    });
  for (const char* name : {"tagged", "untagged"}) {
    auto& op =
        lib.op(std::string(name) + "(Tensor x) -> Tensor").like(0).kernel([](const Tensor& x) {
          return x + 1;
        });
    if (name == std::string("tagged")) op.pt2_compliant();
  }
}

TEST_F(Observable, CheckCustomOpAliasingLooksAtTheFirstCall) {
  static const Op<Tensor(const Tensor&)> itself{"observable::itself"},
      again{"observable::itself_again"};
  auto lines = [](auto& op, bool check) {
    auto scope = config::patch({{"functorch.check_custom_op_aliasing", check}});
    report::LogCapture capture;
    op(ones({2}));
    return capture.count("result 0 shares memory with argument x");
  };
  EXPECT_EQ(lines(itself, false), 0u);
  EXPECT_EQ(lines(itself, true), 1u);
  EXPECT_EQ(lines(itself, true), 0u) << "that was not the first call";
  auto scope = config::patch({{"functorch.error_on_custom_op_aliasing", true}});
  for (int i = 0; i < 2; ++i)
    EXPECT_THAT(message_of([] { again(ones({2})); }),
                HasSubstr("observable.itself_again.default: result 0 shares memory"));
}

TEST_F(Observable, OnlyAllowPt2CompliantOpsKeepsOthersOutOfGraphs) {
  using Unary = Op<Tensor(const Tensor&)>;
  static const Unary tagged{"observable::tagged"}, untagged{"observable::untagged"};
  auto breaks = [](const Unary& op, bool only) {
    auto scope = config::patch({{"dynamo.only_allow_pt2_compliant_ops", only}});
    auto body = [&op](const Tensor& x) { return op(x * 2) * 3; };
    auto f = compile(body, keeping);
    EXPECT_EQ(f(ones({1})).to_vector<float>()[0], 9);
    std::string strict =
        message_of([&] { compile(body, {.backend = "keeping", .fullgraph = true})(ones({1})); });
    return std::pair(f.stats().graph_breaks, strict);
  };
  EXPECT_EQ(breaks(untagged, false), (std::pair<int64_t, std::string>(0, "no error")));
  EXPECT_EQ(breaks(tagged, true), (std::pair<int64_t, std::string>(0, "no error")));
  auto [n, error] = breaks(untagged, true);
  EXPECT_EQ(n, 1);
  EXPECT_THAT(error, HasSubstr("observable.untagged.default lacks the tag pt2_compliant"));
}

}  // namespace
}  // namespace tenon
