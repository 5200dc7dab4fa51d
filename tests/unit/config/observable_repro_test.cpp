// What flags of repros, accuracy checks and suppressed errors do.
#include "graph/text/parse.h"
#include "unit/config/observable_fixture.h"

#include <tenon/library.h>

#include <gmock/gmock.h>

#include <atomic>

namespace tenon {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

auto plus_two(const std::string& backend) {
  return compile([](const Tensor& x) { return x + 2; }, {.backend = backend});
}

config::Patch repro(const char* after, int64_t level) {
  return config::patch({{"dynamo.repro_after", after}, {"dynamo.repro_level", level}});
}

TEST_F(Observable, ReproAfterWritesAReproOfItsStageOnly) {
  {
    auto scope = repro("aot", 1);
    EXPECT_THROW(plus_two("failing")(ones({2})), BackendError);
    EXPECT_THAT(dumps(), IsEmpty()) << "the backend takes captured graphs";
  }
  auto scope = repro("dynamo", 1);
  EXPECT_THROW(plus_two("failing")(ones({2})), BackendError);
  EXPECT_THAT(dumps(), Contains("repro.tng"));
  EXPECT_EQ(parse_graph(dump("repro.tng"))->nodes().size(), 1u);
  EXPECT_THAT(dump("error.txt"), HasSubstr("this backend always fails"));
  EXPECT_THAT(dump("command.sh"),
              HasSubstr("tenon run repro.tng --config flags.toml --backend failing"));
}

TEST_F(Observable, ReproAfterUnsetWritesNothing) {
  EXPECT_THROW(plus_two("failing")(ones({2})), BackendError);
  EXPECT_THAT(dumps(), IsEmpty());
}

TEST_F(Observable, ReproLevelThreeWritesBeforeTheBackendIsAsked) {
  {
    auto scope = repro("dynamo", 1);
    plus_two("keeping")(ones({2}));
    EXPECT_THAT(dumps(), IsEmpty());
  }
  auto scope = repro("dynamo", 3);
  plus_two("keeping")(ones({2}));
  EXPECT_THAT(dumps(), Contains("repro.tng"));
  EXPECT_THAT(dumps(), Not(Contains("error.txt")));
}

// Compiles x + 1 times 2 in place with aot_eager; false where that cannot be.
bool lowers_a_write() {
  auto f = compile(
      [](const Tensor& x) {
        Tensor y = x + 1;
        y.mul_(2);
        return y;
      },
      {.backend = "aot_eager"});
  return message_of([&] { f(ones({2})); }) == "no error";
}

TEST_F(Observable, ReproAfterAotWritesTheLoweredGraph) {
  auto scope = repro("aot", 3);
  ASSERT_TRUE(lowers_a_write());
  EXPECT_THAT(dump("repro.tng"), HasSubstr("aten.mul."));
  EXPECT_THAT(dump("repro.tng"), Not(HasSubstr("aten.mul_.")));
}

// What has a backward, on a backend that fails on graphs of one stage.
template <Stage failing>
auto sine_times_itself() {
  auto compile_others = [](const CompileRequest& request) {
    if (request.stage != failing) return interpreter_artifact(request.graph);
    throw BackendError(ErrorCode::backend_compiler_failed, 1, "this half always fails");
  };
  register_backend("half", compile_others, {"debug"}, Stage::inference);
  return compile([](const Tensor& x) { return (x.sin() * x).sum(); }, {.backend = "half"});
}

TEST_F(Observable, ReproAfterAotWritesTheForwardHalfThatFails) {
  auto scope = repro("aot", 1);
  Tensor x = ones({2}).requires_grad_();
  EXPECT_THROW(sine_times_itself<Stage::forward>()(x), BackendError);
  EXPECT_THAT(dump("error.txt"), HasSubstr("this half always fails"));
  EXPECT_THAT(dump("repro.tng"), HasSubstr("aten.sin."));
  EXPECT_THAT(dump("repro.tng"), Not(HasSubstr(" tangent ")));
}

TEST_F(Observable, ReproAfterAotWritesTheBackwardHalfThatFailsLater) {
  Tensor x = ones({2}).requires_grad_(), loss;
  {
    auto scope = repro("aot", 1);
    loss = sine_times_itself<Stage::backward>()(x);
    EXPECT_THAT(dumps(), IsEmpty());
  }
  EXPECT_THROW(loss.backward(), BackendError);
  EXPECT_THAT(dump("error.txt"), HasSubstr("this half always fails"));
  EXPECT_THAT(dump("repro.tng"), HasSubstr(" tangent "));
  EXPECT_NO_THROW(parse_graph(dump("repro.tng")));
}

TEST_F(Observable, ReproAfterDynamoWritesTheCapturedGraphOfAnyBackend) {
  auto scope = repro("dynamo", 3);
  ASSERT_TRUE(lowers_a_write());
  EXPECT_THAT(dump("repro.tng"), HasSubstr("aten.mul_."));
}

TEST_F(Observable, ReproLevelFourWritesWhereNumbersAreWrong) {
  auto scope = repro("dynamo", 4);
  EXPECT_THAT(
      message_of([&] { plus_two("adding_one")(ones({2})); }),
      HasSubstr("incorrect results of backend adding_one: output 0 2 of 2 elements differ"));
  EXPECT_THAT(dumps(), Contains("repro.tng"));
}

// The output depends on the input as it was, not on what was written there.
TEST_F(Observable, ReproLevelFourComparesGradientsOfInputsThatAreWritten) {
  auto scope = repro("dynamo", 4);
  for (const char* backend : {"eager", "eager_debug", "aot_eager"}) {
    Tensor w = ones({2}).requires_grad_(), product = w * 1;
    auto add = compile([&](const Tensor& x) { return x.add_(w) * 2; }, {.backend = backend});
    EXPECT_EQ(message_of([&] { add(ones({2})); }), "no error") << backend;
    auto scale = compile(
        [&](const Tensor& x) {
          product.view({2}).mul_(2);
          return product * x;
        },
        {.backend = backend});
    EXPECT_EQ(message_of([&] { scale(ones({2})).sum().backward(); }), "no error") << backend;
    EXPECT_EQ(w.grad().to_vector<float>(), (std::vector<float>{2, 2})) << backend;
  }
}

// Operations refuse that backward; code of the whole graph has it, unless it runs op by op.
TEST_F(Observable, ReproLevelFourTakesABackwardThatOperationsRefuse) {
  auto scope = repro("dynamo", 4);
  Tensor w = full({2}, 3.0).requires_grad_();
  auto square = compile([](const Tensor& x) { return x.mul_(x); }, {.backend = "aot_eager"});
  EXPECT_EQ(message_of([&] { square(w * 1).sum().backward(); }), "no error");
  EXPECT_EQ(w.grad().to_vector<float>(), (std::vector<float>{6, 6}));
}

TEST_F(Observable, ReproToleranceIsThatOfTheCheck) {
  auto passes = [&](double amount_of_error, double tolerance) {
    auto scope = repro("dynamo", 4);
    auto also = config::patch({{"dynamo.repro_tolerance", tolerance}});
    amount() = amount_of_error;
    std::string error = message_of([&] { plus_two("adding_one")(ones({2})); });
    amount() = 1;
    return error == "no error";
  };
  EXPECT_TRUE(passes(1e-4, 1e-3));
  EXPECT_FALSE(passes(1e-2, 1e-3));
  EXPECT_TRUE(passes(1e-2, 1e-1));
}

TEST_F(Observable, ReproIgnoreNonFpLeavesBoolsAlone) {
  auto scope = repro("dynamo", 4);
  auto positive = [] {
    return compile([](const Tensor& x) { return x > 0; }, {.backend = "adding_one"});
  };
  EXPECT_THAT(message_of([&] { positive()(ones({2})); }), HasSubstr("incorrect results"));
  auto also = config::patch({{"dynamo.repro_ignore_non_fp", true}});
  EXPECT_EQ(message_of([&] { positive()(ones({2})); }), "no error");
}

// (x + 1e8) - 1e8 has no correct digit in f32: any result is as good as the interpreter's.
TEST_F(Observable, SameTwoModelsUseFp64ExcusesWhatFloatCannotHold) {
  auto scope = config::patch({{"dynamo.verify_correctness", true}});
  auto unstable = [] {
    return compile([](const Tensor& x) { return (x + 1e8) - 1e8; }, {.backend = "adding_one"});
  };
  Tensor x = full({4}, 3.0);
  EXPECT_EQ(message_of([&] { unstable()(x); }), "no error");
  auto also = config::patch({{"dynamo.same_two_models_use_fp64", false}});
  EXPECT_THAT(message_of([&] { unstable()(x); }), HasSubstr("incorrect results"));
}

TEST_F(Observable, VerifyCorrectnessRefusesABackendThatAddsOne) {
  EXPECT_EQ(message_of([&] { plus_two("adding_one")(ones({2})); }), "no error");
  auto scope = config::patch({{"dynamo.verify_correctness", true}});
  EXPECT_THAT(message_of([&] { plus_two("adding_one")(ones({2})); }),
              HasSubstr("BackendCompilerFailed: incorrect results of backend adding_one"));
  EXPECT_EQ(message_of([&] { plus_two("keeping")(ones({2})); }), "no error");
}

TEST_F(Observable, VerifyCorrectnessLooksAtWrittenInputsAndLeavesThemAlone) {
  auto scope = config::patch({{"dynamo.verify_correctness", true}});
  auto f = compile([](Tensor x) { return x.add_(1) * 2; }, {.backend = "keeping"});
  Tensor x = zeros({2});
  EXPECT_EQ(f(x).to_vector<float>(), (std::vector<float>{2, 2}));
  EXPECT_EQ(x.to_vector<float>(), (std::vector<float>{1, 1}));
}

std::atomic<int> n_noted{0};
TENON_LIBRARY(observable_repro_test, lib) {
  lib.op("note(Tensor x) -> Tensor")
      .like(0)
      .kernel([](const Tensor& x) {
        ++n_noted;
        return x * 2;
      })
      .tags(TN_TAG_SIDE_EFFECT);
}
const Op<Tensor(const Tensor&)> note{"observable_repro_test::note"};

TEST_F(Observable, NoComparisonRepeatsWhatAnOperationDoesBesidesComputing) {
  auto run_once = [](const config::Patch&) {
    n_noted = 0;
    compile([](const Tensor& x) { return note(x) + 1; }, keeping)(ones({2}));
    return n_noted.load();
  };
  EXPECT_EQ(run_once(config::patch({{"dynamo.verify_correctness", true}})), 1);
  EXPECT_EQ(run_once(repro("dynamo", 4)), 1);
  EXPECT_EQ(run_once(config::patch({{"functorch.fake_tensor_crossref", "all"}})), 1);
}

TEST_F(Observable, VerifyCorrectnessTakesResultsThatNeedGradients) {
  auto scope = config::patch({{"dynamo.verify_correctness", true}});
  for (const char* backend : {"eager", "aot_eager"}) {
    Tensor w = ones({2}).requires_grad_();
    auto f = compile([&](const Tensor& x) { return x * w; }, {.backend = backend});
    f(full({2}, 3.0)).sum().backward();
    EXPECT_EQ(w.grad().to_vector<float>(), (std::vector<float>{3, 3})) << backend;
    auto g = compile([](Tensor x) { return x.view({2}).mul_(2) * 2; }, {.backend = backend});
    EXPECT_EQ(g(w * 1).to_vector<float>(), (std::vector<float>{4, 4})) << backend;
  }
}

TEST_F(Observable, SuppressErrorsRunsTheBodyAndWarnsOnce) {
  auto scope = config::patch({{"dynamo.suppress_errors", true}});
  report::LogCapture lines;
  auto f = plus_two("failing");
  EXPECT_EQ(f(ones({2})).to_vector<float>(), (std::vector<float>{3, 3}));
  EXPECT_EQ(f(ones({3})).to_vector<float>(), (std::vector<float>{3, 3, 3}));
  EXPECT_EQ(f.stats().eager_calls, 2);
  EXPECT_EQ(lines.count("could not be compiled and runs as it is"), 1u);
  EXPECT_EQ(graphs().size(), 1u) << "the site is skipped";
}

TEST_F(Observable, SuppressErrorsContradictsFailOnRecompileLimitHit) {
  auto scope = config::patch(
      {{"dynamo.suppress_errors", true}, {"dynamo.fail_on_recompile_limit_hit", true}});
  EXPECT_THAT(message_of([&] { plus_two("keeping")(ones({2})); }),
              HasSubstr("ConfigError: dynamo.suppress_errors and"));
}

TEST_F(Observable, DisableCallsTheFunction) {
  auto f = plus_two("keeping");
  {
    auto scope = config::patch({{"dynamo.disable", true}});
    EXPECT_EQ(f(ones({2})).to_vector<float>(), (std::vector<float>{3, 3}));
    EXPECT_EQ(graphs().size(), 0u);
    EXPECT_EQ(f.stats().compiles, 0);
    EXPECT_EQ(f.stats().eager_calls, 1);
  }
  f(ones({2}));
  EXPECT_EQ(graphs().size(), 1u);
}

}  // namespace
}  // namespace tenon
