// What flags of symbolic sizes, guards and recompiles do.
#include "core/dispatch.h"
#include "unit/config/observable_fixture.h"

#include <gmock/gmock.h>

namespace tenon {
namespace {

using report::LogCapture;
using ::testing::HasSubstr;
using ::testing::Not;

auto plus_one(Options options = {.backend = "keeping"}) {
  return compile([](const Tensor& x) { return x + 1; }, std::move(options));
}

// Compilations of calls with these sizes under one flag.
int64_t compiles(std::string_view key, config::Value value, std::vector<int64_t> sizes,
                 Options options = {.backend = "keeping"}) {
  auto scope = config::Patch({{key, std::move(value)}});
  auto f = plus_one(std::move(options));
  for (int64_t n : sizes) f(ones({n}));
  return f.stats().compiles;
}

TEST_F(Observable, AssumeStaticByDefaultOffMakesTheFirstSizeASymbol) {
  EXPECT_EQ(compiles("dynamo.assume_static_by_default", true, {3, 4, 5}), 2);
  EXPECT_EQ(compiles("dynamo.assume_static_by_default", false, {3, 4, 5}), 1);
}

TEST_F(Observable, AutomaticDynamicShapesOffCompilesForEachSize) {
  EXPECT_EQ(compiles("dynamo.automatic_dynamic_shapes", true, {3, 4, 5, 6}), 2);
  EXPECT_EQ(compiles("dynamo.automatic_dynamic_shapes", false, {3, 4, 5, 6}), 4);
}

TEST_F(Observable, ForceParameterStaticShapesCompilesForEachSizeOfAParameter) {
  auto versions = [](bool forced, bool is_parameter) {
    auto scope = config::patch({{"dynamo.force_parameter_static_shapes", forced}});
    Tensor w;
    auto f = compile([&](const Tensor& x) { return (w * x).sum(); }, {.backend = "keeping"});
    for (int64_t n : {3, 4, 5, 6}) {
      w = ones({n}).requires_grad_(is_parameter);
      f(ones({1}));
    }
    return f.stats().compiles;
  };
  EXPECT_EQ(versions(true, true), 4);
  EXPECT_EQ(versions(false, true), 2);
  EXPECT_EQ(versions(true, false), 2);
}

TEST_F(Observable, SpecializeIntAndFloatKeepNumbersConstant) {
  auto versions = [](std::string_view key, bool special, auto body) {
    auto scope = config::Patch({{key, special}});
    auto f = compile(body, {.backend = "keeping"});
    for (int n : {2, 3, 4}) f(ones({1}), n);
    return f.stats().compiles;
  };
  auto with_int = [](const Tensor& x, SymInt n) { return x * n; };
  auto with_float = [](const Tensor& x, SymFloat n) { return x * n; };
  EXPECT_EQ(versions("dynamo.specialize_int", false, with_int), 2);
  EXPECT_EQ(versions("dynamo.specialize_int", true, with_int), 3);
  EXPECT_EQ(versions("dynamo.specialize_float", false, with_float), 2);
  EXPECT_EQ(versions("dynamo.specialize_float", true, with_float), 3);
}

TEST_F(Observable, SpecializeOneOffLetsASizeOfOneBeASymbol) {
  Options dynamic{.backend = "keeping", .dynamic = true};
  EXPECT_EQ(compiles("shapes.specialize_one", true, {1, 4}, dynamic), 2);
  EXPECT_EQ(compiles("shapes.specialize_one", false, {1, 4}, dynamic), 1);
}

TEST_F(Observable, UseDuckShapeOffGivesEqualSizesSymbolsOfTheirOwn) {
  auto versions = [](bool duck) {
    auto scope = config::patch({{"shapes.use_duck_shape", duck}});
    auto f = compile([](const Tensor& x, const Tensor& y) { return x.sum() + y.sum(); },
                     {.backend = "keeping", .dynamic = true});
    f(ones({4}), ones({4}));
    f(ones({5}), ones({6}));
    return f.stats().compiles;
  };
  EXPECT_EQ(versions(true), 2);
  EXPECT_EQ(versions(false), 1);
}

TEST_F(Observable, SymbolGuardLimitBeforeSpecializeGivesUpASymbol) {
  auto versions = [](int64_t limit) {
    auto scope = config::patch({{"shapes.symbol_guard_limit_before_specialize", limit}});
    auto f = compile(
        [](const Tensor& x) {
          SymInt n = x.size(0);
          int steps = 0;
          for (int64_t at : {100, 50, 25}) steps += n < at ? 1 : 0;
          return x * static_cast<double>(steps);
        },
        {.backend = "keeping", .dynamic = true});
    f(ones({10}));
    f(ones({11}));
    return f.stats().compiles;
  };
  EXPECT_EQ(versions(-1), 1);
  EXPECT_EQ(versions(0), 2) << "the first guard already fixes the size";
}

TEST_F(Observable, PrintSpecializationsLogsSymbolsThatBecameConstants) {
  auto lines = [](bool print) {
    auto scope = config::patch({{"shapes.print_specializations", print}});
    LogCapture capture;
    auto f = compile([](const Tensor& x) { return x * int64_t{x.size(0)}; },
                     {.backend = "keeping", .dynamic = true});
    f(ones({4}));
    return capture.count("arg0.size(0) became the constant 4");
  };
  EXPECT_EQ(lines(true), 1u);
  EXPECT_EQ(lines(false), 0u);
}

TEST_F(Observable, ExtendedDebugFlagsLogTheStackOfASymbolAndAGuard) {
  auto f = compile([](const Tensor& x) { return x.size(0) > 5 ? x * 2 : x * 3; },
                   {.backend = "keeping", .dynamic = true});
  auto scope = config::patch({{"shapes.extended_debug_create_symbol", "arg0.size(0)"},
                              {"shapes.extended_debug_guard_added", "arg0.size(0) <= 5"}});
  LogCapture capture;
  f(ones({4}));
  EXPECT_EQ(capture.count("symbol s0 of arg0.size(0) was made\n  #0 "), 1u);
  EXPECT_EQ(capture.count("guard arg0.size(0) <= 5 was added\n  #0 "), 1u)
      << ::testing::PrintToString(capture.lines());
}

TEST_F(Observable, DynamicSourcesMakeInputsSymbolicFromOutside) {
  auto names = [](std::vector<std::string> list) { return config::Value(std::move(list)); };
  EXPECT_EQ(compiles("compiler.dynamic_sources", names({}), {3, 4, 5}), 2);
  EXPECT_EQ(compiles("compiler.dynamic_sources", names({"arg0"}), {3, 4, 5}), 1);
  EXPECT_EQ(compiles("compiler.dynamic_sources", names({"arg0.size(0)"}), {3, 4, 5}), 1);
  EXPECT_EQ(compiles("compiler.dynamic_sources", names({"arg1"}), {3, 4, 5}), 2);
}

TEST_F(Observable, DynamicValuesMakeThoseNumbersSymbols) {
  auto values = [](std::vector<std::string> list) { return config::Value(std::move(list)); };
  EXPECT_EQ(compiles("compiler.dynamic_values", values({"3"}), {3, 4, 5}), 1);
  EXPECT_EQ(compiles("compiler.dynamic_values", values({"4"}), {3, 4, 5}), 2);
}

TEST_F(Observable, AllowIgnoreMarkDynamicForgivesASizeThatWasFixed) {
  auto run = [](bool allow) {
    auto scope = config::patch({{"dynamo.allow_ignore_mark_dynamic", allow}});
    auto f =
        compile([](const Tensor& x) { return x * int64_t{x.size(0)}; }, {.backend = "keeping"});
    Tensor x = ones({4});
    mark_dynamic(x, 0);
    return message_of([&] { f(x); });
  };
  EXPECT_THAT(run(false), HasSubstr("ConstraintViolationError"));
  EXPECT_EQ(run(true), "no error");
}

TEST_F(Observable, AutomaticDynamicExclusionGuardKeepsOldSizesWithTheirVersion) {
  auto served_by_the_first = [](bool exclude) {
    auto scope = config::patch(
        {{"dynamo.automatic_dynamic_exclusion_guard", exclude}, {"capture.mode", "hit"}});
    std::vector<int64_t> first_calls;
    auto f = plus_one();
    f(ones({3}));
    f(ones({4}));
    f(ones({5}));
    std::string before = f.explain();
    f(ones({3}));  // a hit moves its version to the front
    return f.explain() != before;
  };
  EXPECT_TRUE(served_by_the_first(true));
  EXPECT_FALSE(served_by_the_first(false));
}

TEST_F(Observable, RecompileLimitEndsInEagerCalls) {
  auto scope = config::patch({{"dynamo.recompile_limit", 2}});
  auto f =
      compile([](const Tensor& x, int n) { return x * n; }, {.backend = "keeping", .pure = true});
  for (int n = 0; n < 5; ++n) f(ones({1}), n);
  EXPECT_EQ(f.stats().compiles, 2);
  EXPECT_EQ(f.stats().eager_calls, 3);
}

TEST_F(Observable, AccumulatedRecompileLimitCountsAllAttempts) {
  auto scope =
      config::patch({{"dynamo.recompile_limit", 100}, {"dynamo.accumulated_recompile_limit", 3}});
  auto f =
      compile([](const Tensor& x, int n) { return x * n; }, {.backend = "keeping", .pure = true});
  for (int n = 0; n < 5; ++n) f(ones({1}), n);
  EXPECT_EQ(f.stats().compiles, 3);
}

TEST_F(Observable, ALimitOfTheCallablesOwnIsNotCutByTheAccumulatedOne) {
  auto scope = config::patch({{"dynamo.accumulated_recompile_limit", 3}});
  auto compiles = [](Options options) {
    options.backend = "keeping";
    options.pure = true;
    auto f = compile([](const Tensor& x, int n) { return x * n; }, options);
    for (int n = 0; n < 8; ++n) f(ones({1}), n);
    return f.stats().compiles;
  };
  EXPECT_EQ(compiles({}), 3);
  EXPECT_EQ(compiles({.recompile_limit = 6}), 6);
  EXPECT_EQ(compiles({.options = {{"dynamo.cache_size_limit", "6"}}}), 6);
  EXPECT_EQ(
      compiles({.options = {{"dynamo.accumulated_recompile_limit", "5"}}, .recompile_limit = 6}),
      5);
  EXPECT_EQ(compiles({.recompile_limit = 2}), 2);
}

TEST_F(Observable, FailOnRecompileLimitHitAndErrorOnRecompileThrow) {
  auto f =
      compile([](const Tensor& x, int n) { return x * n; }, {.backend = "keeping", .pure = true});
  f(ones({1}), 1);
  {
    auto scope = config::patch({{"dynamo.error_on_recompile", true}});
    EXPECT_THAT(message_of([&] { f(ones({1}), 2); }), HasSubstr("RecompileError"));
  }
  auto scope =
      config::patch({{"dynamo.recompile_limit", 1}, {"dynamo.fail_on_recompile_limit_hit", true}});
  EXPECT_THAT(message_of([&] { f(ones({1}), 2); }), HasSubstr("FailOnRecompileLimitHit"));
}

TEST_F(Observable, OnLimitSaysWhatACallDoesThatNoVersionServes) {
  struct Seen {
    int64_t compiles, eager, replays;
    std::string error;
  };
  auto run = [](const char* on_limit) {
    auto scope = config::patch({{"dynamo.recompile_limit", 2}, {"capture.on_limit", on_limit}});
    auto f =
        compile([](const Tensor& x, int n) { return x * n; }, {.backend = "keeping", .pure = true});
    std::string error = message_of([&] {
      for (int n = 1; n < 5; ++n)
        EXPECT_EQ(f(ones({1}), n).to_vector<float>()[0], static_cast<float>(n));
    });
    return Seen{f.stats().compiles, f.stats().eager_calls, f.stats().replays, error};
  };
  EXPECT_EQ(run("eager").eager, 2);
  EXPECT_EQ(run("evict_lru").compiles, 4);
  EXPECT_EQ(run("evict_lru").eager, 0);
  EXPECT_EQ(run("replay").replays, 2);
  EXPECT_EQ(run("replay").eager, 0);
  EXPECT_THAT(run("error").error, HasSubstr("FailOnRecompileLimitHit"));
}

TEST_F(Observable, ModeSaysWhetherTheBodyRunsOnHits) {
  auto runs = [](const char* mode) {
    auto scope = config::patch({{"capture.mode", mode}});
    int n = 0;
    auto f = compile([&n](const Tensor& x) { return ++n, x + 1; }, {.backend = "keeping"});
    for (int i = 0; i < 6; ++i) EXPECT_EQ(f(ones({1})).to_vector<float>(), std::vector<float>{2});
    return n;
  };
  EXPECT_EQ(runs("hit"), 1);
  EXPECT_EQ(runs("replay"), 6);
  EXPECT_EQ(runs("auto"), 6);
  EXPECT_LE(graphs().size(), 4u) << "replays find their code again";
}

TEST_F(Observable, RetraceCheckLooksAtTheBodyEveryNCalls) {
  auto replays = [](int64_t every) {
    auto scope = config::patch({{"capture.retrace_check", every}});
    auto f = compile([](const Tensor& x) { return x + 1; }, {.backend = "keeping", .pure = true});
    for (int i = 0; i < 100; ++i) f(ones({1}));
    return f.stats().replays;
  };
  EXPECT_GT(replays(10), 5);
  EXPECT_EQ(replays(0), 0);
}

TEST_F(Observable, RetraceCheckIsAnOptionOfCompileAndGoesOnForGood) {
  static double hidden = 1;
  hidden = 1;
  auto f =
      compile([](const Tensor& x) { return x * hidden; },
              {.backend = "keeping", .options = {{"capture.retrace_check", "100"}}, .pure = true});
  Tensor x = ones({1});
  for (int i = 0; i < 5000; ++i) f(x);
  hidden = 2;
  LogCapture lines;
  for (int i = 0; i < 200; ++i) f(x);
  EXPECT_EQ(lines.count("did something else"), 1u);
  EXPECT_EQ(f(x).item<float>(), 2);
}

// The number that it counts becomes a symbol, as in a body that was not stated pure.
TEST_F(Observable, AStaleBodyIsFollowedLikeOthersFromThenOn) {
  int n = 0;
  auto f = compile([&n](const Tensor& x) { return x * static_cast<double>(++n); },
                   {.backend = "keeping", .pure = true});
  LogCapture lines;
  for (int i = 0; i < 40; ++i) {
    float y = f(ones({1})).item<float>();
    if (n > 2) {
      EXPECT_EQ(y, static_cast<float>(n));
    }
  }
  EXPECT_EQ(lines.count("other is 2.0, recorded was 1.0"), 1u);
  EXPECT_GE(n, 35);
  EXPECT_LE(f.stats().compiles, 3);
  EXPECT_EQ(f.stats().eager_calls, 0);
}

// Flags decide what a body is recorded as, so that those of the version count when it is recorded anew.
TEST_F(Observable, VerificationRecordsUnderTheFlagsOfTheVersion) {
  auto run = [](auto&& first_call) {
    auto f = compile(
        [](const Tensor& x) {
          SymFloat s = x.sum().item<float>();
          return x * s;
        },
        {.backend = "keeping", .options = {{"capture.on_stale", "\"error\""}}, .pure = true});
    first_call([&] { f(ones({3})); });
    for (int i = 0; i < 6; ++i) f(ones({3}));
    return f.stats().hits;
  };
  constexpr const char* flag = "dynamo.capture_scalar_outputs";
  EXPECT_EQ(run([&](auto&& call) {
              auto scope = config::patch({{flag, true}});
              call();
            }),
            6);
  EXPECT_EQ(run([&](auto&& call) {
              config::set(flag, true);
              call();
              config::set(flag, false);
            }),
            6);
  EXPECT_FALSE(config::flags().dynamo.capture_scalar_outputs);
}

TEST_F(Observable, OnStaleSaysWhatADivergenceDoes) {
  auto run = [](const char* on_stale) {
    auto scope = config::patch({{"capture.on_stale", on_stale}});
    static double hidden = 1;
    hidden = 1;
    auto f =
        compile([](const Tensor& x) { return x * hidden; }, {.backend = "keeping", .pure = true});
    LogCapture lines;
    std::string error = message_of([&] {
      for (int i = 0; i < 20; ++i, hidden += 1) f(ones({1}));
    });
    return error == "no error" ? (lines.count("did something else") ? "warned" : "silent") : error;
  };
  EXPECT_EQ(run("warn"), "warned");
  EXPECT_THAT(run("error"), HasSubstr("CaptureDivergence"));
}

// A body that looks at data `n` times.
std::string explained_after(int n, const char* flag, int64_t value) {
  auto scope = config::patch({{flag, value}});
  int turns = n;
  auto f = compile(
      [&](const Tensor& x) {
        Tensor y = x;
        for (int i = 0; i < turns; ++i) y = y.sum().item<float>() > 0 ? y * 2 : y + 1;
        return y;
      },
      {.backend = "keeping"});
  for (turns = 1; turns <= n; ++turns)
    for (int again = 0; again < 2; ++again) f(ones({2}));
  return f.explain();
}

TEST_F(Observable, TraceTreeMaxNodesBoundsTheCoursesThatAreKept) {
  EXPECT_THAT(explained_after(4, "capture.trace_tree_max_nodes", 4096),
              HasSubstr("compared with 4 recorded courses"));
  EXPECT_THAT(explained_after(4, "capture.trace_tree_max_nodes", 5),
              HasSubstr("compared with 1 recorded courses"));
}

TEST_F(Observable, TraceTreeMaxDepthBoundsTheLengthOfACourse) {
  EXPECT_THAT(explained_after(4, "capture.trace_tree_max_depth", 2),
              HasSubstr("compared with 1 recorded courses"));
  EXPECT_THAT(explained_after(4, "capture.trace_tree_max_depth", 1),
              HasSubstr("capture.trace_tree_max_depth"));
}

TEST_F(Observable, OnEscapeSaysWhatAKeptTensorDoes) {
  auto run = [](const char* on_escape) {
    auto scope = config::patch({{"capture.on_escape", on_escape}});
    Tensor kept;
    auto f = compile(
        [&kept](const Tensor& x) {
          kept = x * 2;
          return kept + 1;
        },
        {.backend = "keeping"});
    return message_of([&] {
      f(ones({1}));
      EXPECT_EQ(kept.to_vector<float>(), std::vector<float>{2});
    });
  };
  EXPECT_EQ(run("replay"), "no error");
  EXPECT_THAT(run("error"), HasSubstr("capture.on_escape"));
}

TEST_F(Observable, StrictRequiresGradOffSharesAVersionWhereGradientsAreOff) {
  auto versions = [](bool strict) {
    auto scope = config::patch({{"guards.strict_requires_grad", strict}});
    bool before = std::exchange(thread_modes.grad_enabled, false);
    auto f = plus_one();
    Tensor x = ones({3}), leaf = ones({3});
    leaf.requires_grad_();
    f(x);
    f(leaf);
    thread_modes.grad_enabled = before;
    return f.stats().compiles;
  };
  EXPECT_EQ(versions(true), 2);
  EXPECT_EQ(versions(false), 1);
}

TEST_F(Observable, EnableCppGuardManagerOffDecidesAlikeByThePlainList) {
  auto history = [](bool flat) {
    auto scope = config::patch({{"dynamo.enable_cpp_guard_manager", flat}});
    auto f = compile([](const Tensor& x, const Tensor& y, int n) { return x * n + y.sum(); },
                     {.backend = "keeping"});
    std::string out;
    Tensor same = ones({4});
    auto call = [&](const Tensor& x, const Tensor& y, int n) {
      f(x, y, n);
      CallStats s = f.stats();
      out += message("{}/{} ", s.compiles, s.hits);
    };
    for (int64_t size : {3, 4, 4, 5, 1, 7}) call(ones({size}), ones({size}), 2);
    call(same, same, 2);
    call(same, same, 3);
    call(ones({2, 3}), ones({3}), 2);
    call(ones({2, 3}, Dtype::f64), ones({3}), 2);
    return out;
  };
  EXPECT_EQ(history(true), history(false));
}

}  // namespace
}  // namespace tenon
