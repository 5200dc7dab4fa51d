// What compiled passes say: reasons of misses, refusals under fullgraph, NaNs.
#include "unit/tape/tape_test.h"

#include "report/log.h"

#include <cmath>

namespace tenon {
namespace {

using testing::HasSubstr;

class CompiledAutogradSays : public PassTest {
 protected:
  /// What `body` logs under TENON_LOGS=`what`.
  static std::string logged(const std::string& what, const std::function<void()>& body,
                            const ca::EnableOptions& options = {}) {
    auto logs = config::patch({{"logging.logs", what}});
    report::LogCapture lines;
    auto on = ca::enable("aot_eager", options);
    body();
    std::string all;
    for (const std::string& line : lines.lines()) all += line + "\n";
    return all;
  }
};

void pass_over(int64_t n, double exponent) {
  Tensor a = parameter({n});
  a.abs().pow(exponent).sum().backward();
}

TEST_F(CompiledAutogradSays, WhichNodeIsNew) {
  EXPECT_THAT(logged("compiled_autograd_verbose", [] { pass_over(3, 1.5); }),
              HasSubstr("Cache miss due to new autograd node: SumBackward (NodeCall 1) with key "
                        "size"));
  std::string second = logged("compiled_autograd_verbose", [] { pass_over(3, 2.5); });
  EXPECT_THAT(second, testing::ContainsRegex("new autograd node: PowBackward .NodeCall 2. with key "
                                             "size [0-9]+, previous key sizes=.[0-9]+."));
  EXPECT_EQ(logged("compiled_autograd_verbose", [] { pass_over(4, 2.5); }), "");
}

TEST_F(CompiledAutogradSays, WhichSizesHaveChanged) {
  ca::EnableOptions fixed{.dynamic = false};
  logged(
      "compiled_autograd_verbose", [] { pass_over(3, 2); }, fixed);
  EXPECT_THAT(logged(
                  "compiled_autograd_verbose", [] { pass_over(4, 2); }, fixed),
              testing::ContainsRegex("Cache miss due to [0-9]+ changed tensor shapes .total of "
                                     "[0-9]+.: sizes.[0-9]+."));
}

TEST_F(CompiledAutogradSays, TheGraphsOfThePass) {
  std::string text = logged("compiled_autograd", [] { pass_over(3, 2); });
  EXPECT_THAT(text, HasSubstr("graph @backward {"));
}

TEST_F(CompiledAutogradSays, WhyAPassRunsOnTheEngine) {
  std::string text = logged("+compiled_autograd", [] {
    Tensor a = parameter({3});
    autograd::grad({(a * a).sum()}, {a}, {.create_graph = true});
  });
  EXPECT_THAT(text, HasSubstr("runs on the engine: create_graph records the pass on the tape"));
  EXPECT_EQ(ca::stats().eager_passes, 1);
}

// ---- fullgraph

TEST_F(CompiledAutogradSays, UnderFullgraphWhatCannotBeOneGraph) {
  auto on = ca::enable("aot_eager", {.fullgraph = true});
  pass_over(3, 2);
  EXPECT_EQ(ca::stats().captures, 1);
  std::string error = message_of([] {
    Tensor a = parameter({3});
    autograd::grad({(a * a).sum()}, {a}, {.create_graph = true});
  });
  EXPECT_THAT(error, HasSubstr("cannot be one graph: create_graph records the pass on the tape"));
  error = message_of([] {
    Tensor a = parameter({3}), m = a * 2;
    autograd::register_hook(m, [](const Tensor&) {});
    m.sum().backward();
  });
  EXPECT_THAT(error, HasSubstr("it calls tensor hooks of MulBackward (NodeCall 2); leave"));
  EXPECT_EQ(ca::stats().eager_passes, 0);
}

TEST_F(CompiledAutogradSays, UnderTheFlagForCallablesToo) {
  auto step = compile(
      [](const Tensor& w) {
        Tensor y = w * w;
        y.sum().backward({}, true, true);
        return y.detach();
      },
      {.backend = "aot_eager"});
  auto flags = config::patch(
      {{"dynamo.compiled_autograd", true},
       {"dynamo.compiled_autograd_kwargs_override", std::vector<std::string>{"fullgraph=true"}}});
  EXPECT_THAT(message_of([&] { step(parameter({3})); }), HasSubstr("cannot be one graph"));
  auto wrong = config::patch(
      {{"dynamo.compiled_autograd_kwargs_override", std::vector<std::string>{"dynamic=true"}}});
  EXPECT_THAT(message_of([&] { step(parameter({3})); }),
              HasSubstr("expected fullgraph=true or fullgraph=false, found \"dynamic=true\""));
}

TEST_F(CompiledAutogradSays, WhatTheOptionsOfACallableSay) {
  auto captures = [](const char* option, bool flag, const char* settings = "[]") {
    auto scope = config::patch({{"dynamo.compiled_autograd", flag}});
    auto step = compile(
        [](const Tensor& w) {
          Tensor y = w * w;
          y.sum().backward({}, true, true);
          return y.detach();
        },
        {.backend = "aot_eager",
         .options = {{"dynamo.compiled_autograd", option},
                     {"dynamo.compiled_autograd_kwargs_override", settings}}});
    int64_t before = ca::stats().captures + ca::stats().eager_passes;
    step(parameter({3}));
    return ca::stats().captures + ca::stats().eager_passes - before;
  };
  EXPECT_GT(captures("true", false), 0);
  EXPECT_EQ(captures("false", true), 0);
  EXPECT_THAT(message_of([&] { captures("true", false, "[\"fullgraph=true\"]"); }),
              HasSubstr("cannot be one graph"));
}

// ---- NaNs

TEST_F(CompiledAutogradSays, WhichLeafHasNaNsAndWhereTheyComeFrom) {
  captures([] {
    autograd::DetectAnomalyGuard anomaly;
    std::string error = message_of([] {
      Tensor a = parameter({3});
      (a * std::nan("")).sum().backward();
    });
    EXPECT_THAT(error, HasSubstr("NaN gradients for parameters: leaf 0 of shape [3], which "
                                 "MulBackward gives\nrecorded by "));
  });
}

TEST_F(CompiledAutogradSays, WhichLeafHadNaNsBefore) {
  captures([] {
    autograd::DetectAnomalyGuard anomaly;
    Tensor a = parameter({3});
    a.set_grad(a.detach() * std::nan(""));
    EXPECT_THAT(message_of([&] { (a * 2).sum().backward(); }),
                HasSubstr("the gradient of leaf 0 of shape [3] had a NaN before this backward "
                          "pass; clear it with set_grad({})"));
  });
}

// ---- reset

TEST_F(CompiledAutogradSays, AfterResetNothingIsOnOrKnown) {
  ca::enable_everywhere("aot_eager");
  pass_over(3, 2);
  EXPECT_EQ(ca::stats().captures, 1);
  ca::reset();
  pass_over(3, 2);
  EXPECT_EQ(ca::stats().captures + ca::stats().hits + ca::stats().eager_passes, 0);
  EXPECT_EQ(captures([] { pass_over(3, 2); }), 1);
}

TEST_F(CompiledAutogradSays, AResetOfTheProcessForgetsProgramsAndLeavesThemOn) {
  ca::enable_everywhere("aot_eager");
  pass_over(3, 2);
  reset();
  EXPECT_EQ(ca::stats().captures, 0);
  pass_over(3, 2);
  EXPECT_EQ(ca::stats().captures, 1);
  ca::disable_everywhere();
}

TEST_F(CompiledAutogradSays, NothingWhereEverythingRunsEagerly) {
  compiler::StanceScope eager(compiler::Stance::force_eager);
  EXPECT_EQ(captures([] { pass_over(3, 2); }), 0);
  EXPECT_EQ(ca::stats().eager_passes, 0);
}

}  // namespace
}  // namespace tenon
