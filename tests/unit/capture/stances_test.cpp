// What stances, scopes and guards of the program do to calls.
#include <tenon/compiler.h>
#include <tenon/tenon.h>

#include "unit/capture/short.h"
#include "unit/message_of.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

namespace tenon {
namespace {

using compiler::ErrorOnGraphBreak;
using compiler::Stance;
using compiler::StanceScope;
using testing::HasSubstr;

class Stances : public testing::TestWithParam<const char*> {
 protected:
  Options with(Options options = {}) const {
    options.backend = GetParam();
    return options;
  }
};

INSTANTIATE_TEST_SUITE_P(Backends, Stances, testing::Values("eager", "aot_eager", "inductor"),
                         [](const auto& test) { return std::string(test.param); });

TEST_P(Stances, TheFirstCallIsEagerAndTeachesSizes) {
  StanceScope stance(Stance::eager_then_compile);
  auto f = compile(twice, with());
  f(ones({4}));
  EXPECT_EQ(f.stats().compiles, 0);
  EXPECT_EQ(f.stats().eager_calls, 1);
  EXPECT_EQ(f.stats().calls, 1);
  for (int64_t n : {5, 6, 7}) EXPECT_EQ(values(f(ones({n}))), std::vector<float>(n, 2));
  EXPECT_EQ(f.stats().compiles, 1);  // size 5 differs from 4: symbolic at once
}

TEST_P(Stances, TheFirstCallMayBeServedByAotEager) {
  auto f = compile(twice, with());
  {
    StanceScope stance(Stance::aot_eager_then_compile);
    for (int64_t n : {4, 5, 6}) EXPECT_EQ(values(f(ones({n}))), std::vector<float>(n, 2));
  }
  EXPECT_EQ(f.stats().compiles, 2);
  EXPECT_EQ(f.stats().eager_calls, 0);
  EXPECT_EQ(f.stats().calls, 3);
  f.reset();
  EXPECT_EQ(f.stats().calls, 0);
  StanceScope stance(Stance::eager_then_compile);
  f(ones({4}));  // the first one again
  EXPECT_EQ(f.stats().compiles, 0);
}

TEST_P(Stances, AnotherBackendForAWhileAndWhatWasCompiledStays) {
  auto f = compile(twice, with());
  f(ones({2}));
  std::string other = GetParam() == std::string("eager") ? "aot_eager" : "eager";
  for (int i = 0; i < 3; ++i) {
    StanceScope stance(Stance::standard, {.force_backend = other});
    f(ones({2}));
  }
  EXPECT_EQ(f.stats().compiles, 2);
  EXPECT_EQ(f.stats().calls, 4);
  f(ones({2}));
  EXPECT_EQ(f.stats().compiles, 2);
}

TEST_P(Stances, AnotherBackendTakesNoOptionsOfThisOne) {
  auto f =
      compile(twice, {.backend = "inductor",
                      .dynamic = false,
                      .options = {{"max_autotune", "false"}, {"dynamo.recompile_limit", "1"}}});
  StanceScope stance(Stance::standard, {.force_backend = "aot_eager"});
  for (int64_t n : {2, 3, 4}) EXPECT_EQ(values(f(ones({n}))), std::vector<float>(n, 2));
  EXPECT_EQ(f.stats().compiles, 1);  // flags count everywhere
}

TEST_P(Stances, GuardsAreSkippedForTheOneVersion) {
  auto f = compile([](const Tensor& x, int) { return x * 2.0; }, with({.pure = true}));
  f(ones({2}), 1);
  StanceScope stance(Stance::standard, {.skip_guard_eval_unsafe = true});
  EXPECT_EQ(values(f(ones({2}), 2)), (std::vector<float>{2, 2}));  // another number
  EXPECT_EQ(f.stats().compiles, 1);
}

TEST_P(Stances, OptionsLeaveTheStanceAsItIs) {
  auto f = compile(twice, with());
  StanceScope stance(Stance::force_eager, {.skip_guard_eval_unsafe = true});
  f(ones({2}));
  EXPECT_EQ(f.stats().compiles, 0);
  EXPECT_EQ(f.stats().eager_calls, 1);
}

TEST_P(Stances, CallsThatRunAsTheyAreAreCounted) {
  auto f = compile(twice, with());
  f(ones({2}));
  for (int i = 0; i < 2; ++i) {
    StanceScope stance(Stance::force_eager);
    f(ones({2}));
  }
  EXPECT_EQ(f.stats().calls, 3);
  EXPECT_EQ(f.stats().eager_calls, 2);
  EXPECT_EQ(f.stats().eager_calls_after_limit, 0);
}

TEST_P(Stances, CallsOfABodyThatIsRecordedAreNone) {
  auto inner = compile(twice, with());
  auto outer = compile([&](const Tensor& x) { return inner(x) + 1.0; }, with());
  for (int i = 0; i < 3; ++i) outer(ones({2}));
  EXPECT_EQ(inner.stats().calls, 0);
  EXPECT_EQ(inner.stats().eager_calls, 0);
}

Tensor by_sign(const Tensor& x) { return x.sum().item<float>() > 0 ? x * 2.0 : x.exp() + 1.0; }

TEST_P(Stances, NothingNewIsCompiledBehindABreak) {
  auto f = compile(by_sign, with());
  f(ones({2}));
  EXPECT_EQ(f.stats().compiles, 2);
  for (int i = 0; i < 2; ++i) {
    StanceScope stance(Stance::eager_on_recompile);
    EXPECT_EQ(values(f(zeros({2}))), (std::vector<float>{2, 2}));
  }
  EXPECT_EQ(f.stats().compiles, 2);
  EXPECT_EQ(f.stats().eager_calls, 2);
  for (int i = 0; i < 2; ++i) f(zeros({2}));  // what ran op by op is compiled after all
  EXPECT_EQ(f.stats().compiles, 3);
}

TEST_P(Stances, ASecondVersionBehindABreakIsAnError) {
  auto f = compile(by_sign, with());
  StanceScope stance(Stance::fail_on_recompile);
  EXPECT_EQ(values(f(ones({2}))), (std::vector<float>{2, 2}));  // the first version of all
  EXPECT_THAT(message_of([&] { f(zeros({2})); }), HasSubstr("a recompile is needed"));
  EXPECT_EQ(f.stats().compiles, 2);
}

TEST_P(Stances, MoreVersionsAreToldApartByTheirGuards) {
  auto f = compile(twice, with({.dynamic = false}));
  for (int64_t n : {2, 3}) f(ones({n}));
  StanceScope stance(Stance::standard, {.skip_guard_eval_unsafe = true});
  for (int64_t n : {2, 3, 2}) EXPECT_EQ(values(f(ones({n}))), std::vector<float>(n, 2));
  EXPECT_EQ(f.stats().compiles, 2);
}

TEST(StanceErrors, NameWhatIsWrong) {
  EXPECT_THAT(
      message_of([] { compiler::set_stance(Stance::force_eager, {.force_backend = "eager"}); }),
      HasSubstr("leave one of them out"));
  EXPECT_THAT(message_of([] { compiler::set_stance(static_cast<Stance>(77)); }),
              HasSubstr("there is no stance 77"));
  EXPECT_THAT(
      message_of([] { compiler::set_stance(Stance::standard, {.force_backend = "ieager"}); }),
      HasSubstr("eager"));
  auto f = compile(
      [](const Tensor& x) {
        compiler::set_stance(Stance::force_eager);
        return x;
      },
      {.backend = "eager"});
  EXPECT_THAT(message_of([&] { f(ones({1})); }), HasSubstr("inside of a compiled callable"));
  EXPECT_EQ(compiler::get_stance(), Stance::standard);
}

TEST_P(Stances, ThreadsSeeTheChange) {
  auto f = compile(twice, with());
  f(ones({2}));
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 200; ++i) EXPECT_EQ(values(f(ones({2}))), (std::vector<float>{2, 2}));
    });
  for (int i = 0; i < 50; ++i) {
    StanceScope eager(i % 2 ? Stance::force_eager : Stance::eager_on_recompile);
    StanceScope other(Stance::standard, {.force_backend = "eager"});
  }
  for (std::thread& t : threads) t.join();
}

// ---- graph breaks as errors

TEST_P(Stances, BreaksAreErrorsWithinAScope) {
  auto f = compile([](const Tensor& x) { return x.sum().item<float>() > 0 ? x + 1.0 : x - 1.0; },
                   with());
  auto guarded = [&] {
    ErrorOnGraphBreak scope;
    f(ones({2}));
  };
  EXPECT_THAT(message_of(guarded), HasSubstr("stances_test.cpp"));
  EXPECT_EQ(values(f(ones({2}))), (std::vector<float>{2, 2}));
  EXPECT_THAT(message_of(guarded), HasSubstr("ErrorOnGraphBreak"));  // recorded by now
  EXPECT_EQ(values(f(ones({2}))), (std::vector<float>{2, 2}));
}

TEST_P(Stances, AScopeInTheBodyMayBeLiftedWithin) {
  auto f = compile(
      [](const Tensor& x, int where) {
        ErrorOnGraphBreak scope;
        Tensor y = x * 2.0;
        if (where == 1) graph_break("forbidden");
        {
          ErrorOnGraphBreak lifted(false);
          graph_break("allowed");
        }
        return y + 1.0;
      },
      with());
  for (int i = 0; i < 3; ++i) EXPECT_EQ(values(f(ones({1}), 0)), std::vector<float>{3});
  EXPECT_EQ(f.stats().graph_breaks, 1);
  for (int i = 0; i < 2; ++i)
    EXPECT_THAT(message_of([&] { f(ones({1}), 1); }), HasSubstr("forbidden at "));
  EXPECT_EQ(values(f(ones({1}), 0)), std::vector<float>{3});
}

// ---- guards of the program

TEST_P(Stances, APureBodyMayGuardWhatItReads) {
  double rate = 2;
  auto f = compile([&](const Tensor& x) { return x * tenon::guard([&] { return rate; }); },
                   with({.pure = true}));
  for (double r : {2.0, 2.0, 3.0, 2.0, 3.0, 5.0, 5.0}) {
    rate = r;
    EXPECT_EQ(f(ones({1})).item<float>(), float(r));
  }
  EXPECT_EQ(f.stats().compiles, 3);
  rate = 7;
  f(ones({1}));
  EXPECT_THAT(f.explain(), HasSubstr("stances_test.cpp"));
}

TEST_P(Stances, AGuardThatChangesNothingAddsOneVersion) {
  int mode = 0;
  auto f = compile(
      [&](const Tensor& x) {
        tenon::guard([&] { return mode; });
        return x * 2.0;
      },
      with({.pure = true}));
  for (int i = 0; i < 6; ++i) {
    mode = i % 2;
    f(ones({1}));
  }
  EXPECT_EQ(f.stats().compiles, 2);
  EXPECT_EQ(f.stats().hits, 4);
}

TEST_P(Stances, AGuardTakesNaNForNaN) {
  double rate = NAN;
  std::vector<float> rates{1, NAN};
  std::pair<int, std::optional<float>> choice{1, NAN};
  auto f = compile(
      [&](const Tensor& x) {
        tenon::guard([&]() -> const std::vector<float>& { return rates; });
        tenon::guard([&] { return choice; });
        return x * tenon::guard([&] { return rate; });
      },
      with({.dynamic = false, .pure = true}));
  auto compiles_after = [&](int64_t n_calls) {
    for (int64_t i = 0; i < n_calls; ++i) f(ones({1}));
    return f.stats().compiles;
  };
  EXPECT_EQ(compiles_after(9), 1);
  rates[0] = 2;
  EXPECT_EQ(compiles_after(3), 2);
  choice.second.reset();
  EXPECT_EQ(compiles_after(3), 3);
  rate = 1;
  EXPECT_EQ(compiles_after(3), 4);
  EXPECT_EQ(f.stats().eager_calls, 0);
}

TEST_P(Stances, ABodyThatRunsNeedsNoGuard) {
  int mode = 0;
  auto f = compile(
      [&](const Tensor& x) { return tenon::guard([&] { return mode > 2; }) ? x * 3.0 : x * 2.0; },
      with());
  for (mode = 0; mode < 6; ++mode) EXPECT_EQ(f(ones({1})).item<float>(), mode > 2 ? 3.0f : 2.0f);
}

TEST_P(Stances, WhatAGuardThrowsTheCallThrows) {
  bool bad = false;
  auto f = compile(
      [&](const Tensor& x) {
        tenon::guard([&] {
          if (bad) throw std::runtime_error("bad guard");
          return 1;
        });
        return x * 2.0;
      },
      with({.pure = true}));
  f(ones({1}));
  bad = true;
  EXPECT_EQ(message_of([&] { f(ones({1})); }), "bad guard");
  bad = false;
  EXPECT_EQ(f(ones({1})).item<float>(), 2);
}

TEST(Steps, AreCounted) {
  int64_t before = compiler::cudagraph_step();
  for (int i = 0; i < 3; ++i) compiler::cudagraph_mark_step_begin();
  EXPECT_EQ(compiler::cudagraph_step(), before + 3);
}

}  // namespace
}  // namespace tenon
