// What programs are told: counters, events, log lines, the summary, explanations of one call.
#include <tenon/compiler.h>
#include <tenon/tenon.h>

#include "unit/capture/short.h"
#include "unit/message_of.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

namespace tenon {
namespace {

using compiler::Event;
using compiler::EventKind;
using testing::Contains;
using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

int64_t count(const std::string& name) {
  auto all = counters();
  auto found = all.find(name);
  return found == all.end() ? 0 : found->second;
}

class Observing : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override { tenon::reset(); }
  Options with(Options options = {}) const {
    options.backend = GetParam();
    return options;
  }
};

INSTANTIATE_TEST_SUITE_P(Backends, Observing, testing::Values("eager", "aot_eager", "inductor"),
                         [](const auto& test) { return std::string(test.param); });

TEST_P(Observing, CountersTellOfCompilesAndGuards) {
  auto patch = config::patch({{"compiler.force_disable_caches", true}});
  auto f = compile(twice, with({.dynamic = false, .name = "twice"}));
  for (int64_t n : {2, 3, 3, 2}) f(ones({n}));
  EXPECT_EQ(count("recompiles[twice]"), 1);
  EXPECT_EQ(count("frames.total"), 2);
  EXPECT_EQ(count("frames.ok"), 2);
  EXPECT_EQ(count("stats.unique_graphs"), 2);
  EXPECT_EQ(count("stats.calls_captured"), 2);
  EXPECT_EQ(count("guard.failures"), 2);  // sizes 3 and 2, where the other version was in front
  EXPECT_EQ(count("guard.evals"), 4);
  EXPECT_EQ(count("aot.ok"), GetParam() == std::string("eager") ? 0 : 2);
  EXPECT_EQ(count("aot.ok"), count("aot.total"));
}

TEST_P(Observing, CountersOutliveCallablesAndBeginAnewWithReset) {
  for (int i = 0; i < 3; ++i) {
    auto f = compile(twice, with({.name = "gone"}));
    f(ones({2}));
    f(ones({2}));
  }
  EXPECT_EQ(count("guard.evals"), 3);
  EXPECT_EQ(count("frames.ok"), 3);
  tenon::reset();
  EXPECT_THAT(counters(), testing::Not(Contains(testing::Key("frames.ok"))));
  EXPECT_EQ(count("guard.evals"), 0);
}

TEST_P(Observing, BreaksAreCountedByReason) {
  auto f =
      compile([](const Tensor& x) { return x.sum().item<float>() > 0 ? x + 1 : x - 1; }, with());
  for (int i = 0; i < 3; ++i) f(ones({2}));
  int64_t n = 0;
  for (const auto& [name, value] : counters())
    if (name.starts_with("graph_break[item() at ") &&
        name.find("observing_test.cpp") != std::string::npos)
      n += value;
  EXPECT_EQ(n, 1);
}

TEST_P(Observing, EventsComeInOrderUntilTheListenerGoes) {
  std::vector<std::string> told;
  auto watch = compiler::on_event(
      [&](const Event& e) { told.push_back(e.callable + ": " + std::string(name_of(e.kind))); });
  auto f = compile(twice, with({.dynamic = false, .recompile_limit = 2, .name = "twice"}));
  for (int64_t n : {2, 3, 4, 5}) f(ones({n}));
  EXPECT_THAT(
      told, ElementsAre("twice: recompile", "twice: limit", "twice: fallback", "twice: fallback"));
  EXPECT_EQ(f.stats().eager_calls_after_limit, 2);
  EXPECT_EQ(count("eager_fallback[recompile_limit]"), 2);
  watch.reset();
  f(ones({6}));
  EXPECT_EQ(told.size(), 4u);
  EXPECT_EQ(f.stats().eager_calls_after_limit, 3);
}

// What the limit of a callable says when these calls have reached it.
template <class F, class Calls>
std::string text_at_limit(F body, Options options, Calls calls) {
  std::string text;
  auto watch = compiler::on_event([&](const Event& e) {
    if (e.kind == EventKind::limit) text = e.text;
  });
  auto f = compile(body, std::move(options));
  calls(f);
  return text;
}

TEST_P(Observing, ALimitOfNoneHasNoReason) {
  EXPECT_EQ(text_at_limit(twice, with({.recompile_limit = 0, .name = "none"}),
                          [](auto& f) { f(ones({2})); }),
            "callable none is not compiled, since the limit dynamo.recompile_limit is 0; raise the "
            "limit");
}

TEST_P(Observing, ALimitTellsTheLatestReasonsAndWhatHelps) {
  auto sizes = [](auto& f) {
    for (int64_t n = 2; n < 8; ++n) f(ones({n}));
  };
  std::string text = text_at_limit(twice, with({.dynamic = false, .recompile_limit = 5}), sizes);
  EXPECT_THAT(text, HasSubstr("expected 6, found 7"));
  EXPECT_THAT(text, HasSubstr("expected 5, found 7"));
  EXPECT_THAT(text, Not(HasSubstr("expected 4, found 7")));
  EXPECT_THAT(text, EndsWith("; and 3 others (TENON_LOGS=recompiles_verbose shows them); mark "
                             "sizes dynamic, or raise the limit"));
  int mode = 0;
  auto guarded = [&](const Tensor& x) {
    tenon::guard([&] { return mode; });
    return x * 2.0;
  };
  text = text_at_limit(guarded, with({.recompile_limit = 2, .pure = true}), [&](auto& f) {
    for (mode = 0; mode < 3; ++mode) f(ones({2}));
  });
  EXPECT_THAT(text, EndsWith("gives another value; raise the limit"));
}

TEST_P(Observing, ALimitAdvisesNothingOnSizesWhereATextIsAnother) {
  auto body = [](const Tensor& x, const std::string& text) { return x * double(text.size()); };
  std::string text = text_at_limit(body, with({.recompile_limit = 2, .pure = true}), [&](auto& f) {
    for (const char* end : {"0", "10", "100"})
      f(ones({2}), std::string(": size at dimension ") + end);
  });
  EXPECT_THAT(text, HasSubstr("size at dimension 100'"));
  EXPECT_THAT(text, EndsWith("'; raise the limit"));
}

TEST_P(Observing, AChangeOfTheThreadsStateIsNamedWithBothValues) {
  std::string text;
  auto watch = compiler::on_event([&](const Event& e) {
    if (e.kind == EventKind::recompile) text = e.text;
  });
  auto f = compile(twice, with());
  f(ones({2}));
  auto reason = [&](auto in_state) {
    f.reset();
    in_state([&] { f(ones({2})); });
    f(ones({2}));
    return text;
  };
  EXPECT_THAT(reason([](auto call) {
                NoGradGuard off;
                call();
              }),
              EndsWith(": grad mode: expected off, found on"));
  EXPECT_THAT(reason([](auto call) {
                AutocastGuard on;
                call();
              }),
              EndsWith(": autocast: expected cpu bf16, found off"));
  EXPECT_THAT(reason([](auto call) {
                NoGradGuard off;
                set_deterministic(true);
                call();
                set_deterministic(false);
              }),
              EndsWith(": grad mode: expected off, found on, deterministic mode: expected on, "
                       "found off"));
}

TEST_P(Observing, BreaksAreToldWithFileAndLine) {
  std::vector<std::string> texts;
  auto watch = compiler::on_event([&](const Event& e) {
    if (e.kind == EventKind::graph_break) texts.push_back(e.text);
  });
  auto f = compile(
      [](const Tensor& x) {
        graph_break("here");
        return x * 2.0;
      },
      with());
  f(ones({2}));
  ASSERT_EQ(texts.size(), 1u);
  EXPECT_THAT(texts[0], HasSubstr("here at "));
  EXPECT_THAT(texts[0], HasSubstr("observing_test.cpp:"));
}

TEST_P(Observing, AListenerMayUseTheWholeApi) {
  auto inner = compile([](const Tensor& x) { return x + 1.0; }, with());
  std::shared_ptr<void> own;
  std::string explained;
  int calls = 0;
  auto f = compile(
      [](const Tensor& x) {
        graph_break("here");
        return x * 2.0;
      },
      with({.name = "outer"}));
  own = compiler::on_event([&](const Event&) {
    ++calls;
    EXPECT_FALSE(is_compiling());
    EXPECT_EQ(inner(ones({2}))[0].item<float>(), 2);  // computes, compiles, is not recorded
    explained = f.explain();
    static_cast<void>(f.stats());
    own.reset();  // removes itself
  });
  EXPECT_EQ(f(ones({2}))[0].item<float>(), 2);
  EXPECT_EQ(calls, 1);
  EXPECT_THAT(explained, HasSubstr("outer"));
}

TEST_P(Observing, WhatAListenerThrowsHurtsNobody) {
  int after = 0;
  auto bad = compiler::on_event([](const Event&) { throw std::runtime_error("bad"); });
  auto worse = compiler::on_event([](const Event&) { throw 3; });
  auto good = compiler::on_event([&](const Event&) { ++after; });
  auto f = compile(twice, with({.dynamic = false}));
  testing::internal::CaptureStderr();
  for (int64_t n : {2, 3, 4}) EXPECT_EQ(f(ones({n})).sum().item<float>(), float(2 * n));
  EXPECT_EQ(after, 2);
  std::string log = testing::internal::GetCapturedStderr();
  for (const char* text : {"threw: bad", "threw no std::exception"}) {
    EXPECT_THAT(log, HasSubstr(text));
    EXPECT_EQ(log.find(text), log.rfind(text)) << "each listener says so once";
  }
  EXPECT_THAT(message_of([] { static_cast<void>(compiler::on_event(nullptr)); }),
              HasSubstr("callback is empty"));
}

TEST_P(Observing, ListenersComeAndGoWhileOthersCall) {
  auto f = compile(twice, with({.dynamic = false, .recompile_limit = 1}));
  f(ones({1}));
  std::atomic<bool> done{false};
  std::atomic<int> told{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t)
    threads.emplace_back([&] {
      while (!done) f(ones({2}));
    });
  for (int i = 0; i < 200; ++i) auto watch = compiler::on_event([&](const Event&) { ++told; });
  done = true;
  for (std::thread& t : threads) t.join();
}

TEST_P(Observing, EagerCallsAreCountedByReason) {
  auto f = compile(twice, with());
  f(ones({2}));
  compiler::StanceScope stance(compiler::Stance::eager_on_recompile);
  f(ones({3}));
  EXPECT_EQ(count("eager_fallback[stance]"), 1);
  compiler::set_stance(compiler::Stance::force_eager);
  f(ones({2}));
  EXPECT_EQ(count("eager_fallback[stance]"), 2);
  compiler::set_stance(compiler::Stance::standard);
  auto patch = config::patch({{"dynamo.disable", true}});
  f(ones({2}));
  EXPECT_EQ(count("eager_fallback[disabled]"), 1);
  EXPECT_EQ(f.stats().calls, 4);
  EXPECT_EQ(f.stats().eager_calls, 3);
  EXPECT_EQ(f.stats().eager_calls_after_limit, 0);
}

TEST_P(Observing, ASuppressedErrorIsCounted) {
  auto patch = config::patch({{"dynamo.suppress_errors", true}});
  auto f = compile([](const Tensor& x) { return x.sum().item<float>() > 0 ? x : -x; },
                   with({.fullgraph = true}));
  for (int i = 0; i < 2; ++i) f(ones({2}));
  EXPECT_EQ(count("eager_fallback[suppressed_error]"), 2);
}

TEST(Counters, AFamilyHasAnEnd) {
  tenon::reset();
  for (int i = 0; i < 1100; ++i) {
    auto f = compile(twice, {.backend = "eager", .dynamic = false, .name = std::to_string(i)});
    for (int64_t n : {2, 3}) f(ones({n}));
  }
  size_t n = 0;
  for (const auto& [name, value] : counters()) n += name.starts_with("recompiles[");
  EXPECT_LE(n, 1025u);
  EXPECT_GT(count("recompiles[other]"), 0);
}

// ---- explanations

TEST(Explain, OneCallShowsGraphsBreaksAndGuards) {
  auto other = compile(twice, {.backend = "eager"});
  other(ones({2}));
  Explanation found = explain(
      [](const Tensor& x) {
        Tensor y = x * 2.0;
        if (y.sum().item<float>() > 0) return y + 1.0;
        return y - 1.0;
      },
      ones({3}));
  EXPECT_EQ(found.graph_count(), 2u);
  EXPECT_EQ(found.graph_break_count, 1);
  EXPECT_EQ(found.op_count(), 3u);
  EXPECT_THAT(found.graphs[1].ops, ElementsAre("aten.add.Scalar"));
  ASSERT_EQ(found.break_reasons.size(), 1u);
  EXPECT_THAT(found.break_reasons[0], HasSubstr("observing_test.cpp:"));
  EXPECT_THAT(found.guards, Contains(HasSubstr("sizes [3]")));
  EXPECT_THAT(found.str(), HasSubstr("2 graphs, 1 graph breaks, 3 operations"));
  other(ones({2}));
  EXPECT_EQ(other.stats().compiles, 1);  // was not reset
  EXPECT_EQ(other.stats().calls, 2);
}

TEST(Explain, RecordsWhateverScopesStancesAndFlagsSay) {
  auto n_graphs = [] { return explain(twice, ones({3})).graph_count(); };
  using compiler::Stance;
  for (Stance stance : {Stance::force_eager, Stance::eager_on_recompile, Stance::eager_then_compile,
                        Stance::aot_eager_then_compile}) {
    compiler::StanceScope scope(stance);
    EXPECT_EQ(n_graphs(), 1u);
    EXPECT_EQ(compiler::get_stance(), stance);
  }
  {
    NoCompile scope;
    EXPECT_EQ(n_graphs(), 1u);
    auto f = compile(twice, {.backend = "eager"});
    f(ones({3}));
    EXPECT_EQ(f.stats().compiles, 0) << "and the scope counts afterwards";
  }
  auto flags = config::patch({{"dynamo.disable", true},
                              {"dynamo.minimum_call_count", 5},
                              {"dynamo.recompile_limit", 0},
                              {"dynamo.accumulated_recompile_limit", 0}});
  EXPECT_EQ(n_graphs(), 1u);
}

TEST(Explain, BreaksOfAllKindsHaveFileAndLine) {
  Tensor w = ones({2}).requires_grad_(), other = ones({2});
  auto apart = disable([](const Tensor& t) { return t + 1.0; }, {.reason = "it prints"});
  Explanation found = explain(
      [&](const Tensor& x) {
        Tensor y = apart(x * 2.0) * w;
        y.sum().backward();
        manual_seed(7);
        Tensor z = rand({2}) * x;
        set_rng_state(rng_state());
        Tensor needs = z * 2.0 + other;
        other.requires_grad_();
        Tensor d = autograd::grad({(needs.detach() * w).sum()}, {w})[0];
        y.detach().set_grad(d);
        return d * 2.0;
      },
      ones({2}));
  EXPECT_GE(found.break_reasons.size(), 5u);
  for (const char* what :
       {"disable (it prints) at ", "backward() at ", "the random seed is set at ",
        "the state of the random numbers is read at ", "requires_grad_() at ", "grad() at "})
    EXPECT_THAT(found.break_reasons, Contains(HasSubstr(what)));
  for (const std::string& reason : found.break_reasons)
    EXPECT_THAT(reason, HasSubstr("observing_test.cpp:"));
}

TEST(Explain, ACompiledCallableStandsForItsOriginal) {
  auto f = compile(twice, {.backend = "eager"});
  Explanation found = explain(f, ones({2}));
  EXPECT_EQ(found.graph_count(), 1u);
  EXPECT_EQ(f.stats().calls, 0);
  EXPECT_THAT(f.explain(), HasSubstr("0 versions"));
}

TEST(Explain, IsRefusedInABody) {
  auto f = compile(
      [](const Tensor& x) {
        static_cast<void>(explain(twice, x));
        return x;
      },
      {.backend = "eager"});
  EXPECT_THAT(message_of([&] { f(ones({2})); }), HasSubstr("inside of a compiled callable"));
}

TEST(Explain, WhatTheBodyLeavesAloneIsNotItsOwn) {
  auto inner = compile([](const Tensor& x) { return x + 1.0; }, {.backend = "eager"});
  auto aside = disable([&](const Tensor& x) { return inner(x); });
  Explanation found = explain([&](const Tensor& x) { return aside(x * 2.0) * 3.0; }, ones({2}));
  EXPECT_EQ(found.graph_count(), 2u);
  EXPECT_THAT(message_of([] { explain([](const Tensor& x) { return x.view({7}); }, ones({2})); }),
              HasSubstr("shape [7]"));
}

// ---- log lines

TEST(Logs, NamesAreChecked) {
  EXPECT_THAT(message_of([] { set_logs("recompile"); }), HasSubstr("recompiles"));
  EXPECT_THAT(message_of([] { LogScope scope("nothing"); }), HasSubstr("LogScope"));
  EXPECT_THAT(log_names(), Contains("summary"));
}

TEST(Logs, SetForTheProcessOrAScope) {
  auto now = [] { return config::get_as<std::vector<std::string>>("logging.logs"); };
  set_logs("+guards, recompiles");
  EXPECT_THAT(now(), ElementsAre("+guards", "recompiles"));
  {
    LogScope scope("graph_breaks");
    EXPECT_THAT(now(), ElementsAre("graph_breaks"));
  }
  EXPECT_THAT(now(), ElementsAre("+guards", "recompiles"));
  set_logs("");
  EXPECT_THAT(now(), IsEmpty());
}

// What a process writes to its error stream until it has ended.
std::string errors_of(void (*program)()) {
  int ends[2];
  EXPECT_EQ(::pipe(ends), 0);
  pid_t child = ::fork();
  if (child == 0) {
    ::dup2(ends[1], STDERR_FILENO);
    ::close(ends[0]);
    program();
    std::exit(0);
  }
  ::close(ends[1]);
  std::string out;
  char buffer[512];
  for (ssize_t n; (n = ::read(ends[0], buffer, sizeof buffer)) > 0;) out.append(buffer, n);
  ::close(ends[0]);
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0) << out;
  return out;
}

TEST(Logs, TheSummaryNamesCallablesAtTheirLimitWhenTheProcessEnds) {
  std::string text = errors_of([] {
    set_logs("summary");
    static auto kept = compile(twice, {.backend = "eager", .name = "kept"});
    kept(ones({2}));
    auto f = compile(twice,
                     {.backend = "eager", .dynamic = false, .recompile_limit = 1, .name = "gone"});
    for (int64_t n = 1; n < 5; ++n) f(ones({n}));
    auto g = compile([](const Tensor& x) { return x.sum().item<float>() > 0 ? x + 1 : x; },
                     {.backend = "eager", .name = "cut"});
    g(ones({2}));
  });
  EXPECT_THAT(text, HasSubstr("callable gone: 4 calls, 1 compiles, at its limit of recompiles (3 "
                              "calls ran eagerly because of it)"));
  EXPECT_THAT(text, HasSubstr("callable cut: 1 calls"));
  EXPECT_THAT(text, HasSubstr("1 graph breaks"));
  EXPECT_THAT(text, testing::Not(HasSubstr("callable kept")));
  EXPECT_THAT(text, HasSubstr("other callables: "));
}

}  // namespace
}  // namespace tenon
