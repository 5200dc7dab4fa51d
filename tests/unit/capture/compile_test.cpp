// tenon::compile from the user's side: what it gives, when it compiles, and what it refuses.
#include "unit/capture/short.h"

#include <tenon/compile.h>
#include <tenon/config.h>
#include <tenon/ops.h>

#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <thread>
#include <variant>

using namespace tenon;

namespace {

using Floats = std::vector<float>;

}  // namespace

TEST(Compile, GivesWhatThePlainCallableGives) {
  auto f = compile([](const Tensor& x) { return x.relu() * 2 + 1; }, eager);
  EXPECT_EQ(values(f(row({-1, 2}))), (Floats{1, 5}));
  EXPECT_EQ(values(f(row({3, -4}))), (Floats{7, 1}));
  EXPECT_EQ(f.stats().compiles, 1);
}

TEST(Compile, APureBodyDoesNotRunOnAHit) {
  int runs = 0;
  auto patch = config::patch({{"capture.mode", std::string("hit")}});
  auto f = compile([&runs](const Tensor& x) { return ++runs, x + 1; }, eager);
  for (int i = 0; i < 5; ++i) f(row({1}));
  EXPECT_EQ(runs, 1);
  EXPECT_EQ(f.stats().hits, 4);
}

TEST(Compile, TheSecondSizeIsSymbolicAndTheThirdCompilesNothing) {
  auto f = compile([](const Tensor& x) { return x.relu() * x.size(0); }, eager);
  f(ones({4, 3}));
  EXPECT_EQ(f.stats().compiles, 1);
  f(ones({5, 3}));
  EXPECT_EQ(f.stats().compiles, 2);
  EXPECT_EQ(values(f(ones({6, 3})))[0], 6);
  EXPECT_EQ(f.stats().compiles, 2);
}

TEST(Compile, SizesZeroAndOneGetCodeOfTheirOwn) {
  auto f = compile([](const Tensor& x) { return x + 1; }, eager);
  f(ones({3}));
  f(ones({5}));
  f(ones({1}));
  f(ones({0}));
  EXPECT_EQ(f.stats().compiles, 4);
  f(ones({2}));
  EXPECT_EQ(f.stats().compiles, 4);
}

TEST(Compile, DynamicFromTheFirstCallWhenAskedFor) {
  auto f =
      compile([](const Tensor& x) { return x + x.size(0); }, {.backend = "eager", .dynamic = true});
  EXPECT_EQ(values(f(ones({2}))), (Floats{3, 3}));
  EXPECT_EQ(values(f(ones({3}))), (Floats{4, 4, 4}));
  EXPECT_EQ(f.stats().compiles, 1);
}

TEST(Compile, ABranchOnASizeHasTwoVersionsNotOneForEachSize) {
  auto f = compile([](const Tensor& x) { return x.size(0) > 5 ? x * 2 : x * 3; },
                   {.backend = "eager", .dynamic = true});
  EXPECT_EQ(values(f(ones({3})))[0], 3);
  EXPECT_EQ(values(f(ones({4})))[0], 3);
  EXPECT_EQ(values(f(ones({7})))[0], 2);
  EXPECT_EQ(values(f(ones({9})))[0], 2);
  EXPECT_EQ(f.stats().compiles, 2);
}

TEST(Compile, PlainNumbersOfPureBodiesAreGuardedByValue) {
  auto f = compile([](const Tensor& x, int n, bool negate) { return negate ? x * -n : x * n; },
                   {.backend = "eager", .pure = true});
  EXPECT_EQ(values(f(row({1}), 3, false)), (Floats{3}));
  EXPECT_EQ(values(f(row({1}), 4, false)), (Floats{4}));
  EXPECT_EQ(values(f(row({1}), 4, true)), (Floats{-4}));
  EXPECT_EQ(f.stats().compiles, 3);
}

TEST(Compile, ASymIntParameterBecomesSymbolicOnItsSecondValue) {
  auto f = compile([](const Tensor& x, SymInt n) { return x * n; }, eager);
  for (int64_t n : {2, 3, 4, 1, 0, -5}) EXPECT_EQ(values(f(row({1}), n))[0], static_cast<float>(n));
  EXPECT_EQ(f.stats().compiles, 2);
}

TEST(Compile, ANumberReadFromATensorIsNeverBaked) {
  auto f = compile(
      [](const Tensor& x) {
        float s = x.sum().item<float>();
        return s > 0 ? x * s : x - 100;
      },
      eager);
  EXPECT_EQ(values(f(row({1, 2}))), (Floats{3, 6}));
  EXPECT_EQ(values(f(row({2, 2}))), (Floats{8, 8}));
  EXPECT_EQ(values(f(row({-1, 0}))), (Floats{-101, -100}));
}

TEST(Compile, ALoopWhoseLengthDependsOnDataCompilesItsBodyOnce) {
  auto f = compile(
      [](Tensor x) {
        int steps = 0;
        while (x.sum().item<float>() < 100) x = x * 2, ++steps;
        return std::pair{x, steps};
      },
      eager);
  EXPECT_EQ(f(row({1, 1})).second, 6);
  int64_t compiled = f.stats().compiles;
  EXPECT_EQ(f(row({0.5f, 0.5f})).second, 7);
  EXPECT_EQ(f.stats().compiles, compiled);
}

TEST(Compile, AReturnedScalarDoesNotCutTheGraph) {
  auto f = compile(
      [](const Tensor& x) {
        return std::pair{x * 2, x.sum().item<float>()};
      },
      {.backend = "eager", .fullgraph = true});
  auto [y, sum] = f(row({1, 2}));
  EXPECT_EQ(float(sum), 3);
  EXPECT_EQ(float(f(row({5, 2})).second), 7);
  EXPECT_EQ(f.stats().graph_breaks, 0);
}

TEST(Compile, FullgraphRefusesToLookAtDataAndNamesThePlace) {
  auto f = compile([](const Tensor& x) { return x.sum().item<float>() > 0 ? x : -x; },
                   {.backend = "eager", .fullgraph = true});
  try {
    f(row({1}));
    FAIL() << "no error";
  } catch (const UserError& e) {
    EXPECT_EQ(e.code(), ErrorCode::graph_break);
    EXPECT_NE(std::string(e.what()).find("compile_test.cpp:"), std::string::npos) << e.what();
  }
}

namespace {
struct Stats {
  Tensor mean, deviation;
  std::optional<Tensor> extra;
  std::map<std::string, Tensor> named;
};
}  // namespace

TEST(Compile, StructsOptionalsAndMapsComeBackAsTheyWere) {
  auto f = compile(
      [](const std::vector<Tensor>& xs, bool with_extra) {
        Tensor m = xs[0] + xs[1];
        return Stats{
            m, m - xs[0], with_extra ? std::optional<Tensor>(m * 2) : std::nullopt, {{"sum", m}}};
      },
      eager);
  for (int i = 0; i < 2; ++i) {
    Stats s = f({row({1}), row({2})}, i == 1);
    EXPECT_EQ(values(s.mean), Floats{3});
    EXPECT_EQ(values(s.named.at("sum")), Floats{3});
    EXPECT_EQ(s.extra.has_value(), i == 1);
  }
  EXPECT_EQ(f.stats().compiles, 2);
}

TEST(Compile, WritesToAnArgumentAreSeenByTheCaller) {
  for (const char* backend : {"eager", "aot_eager"}) {
    auto f = compile(
        [](const Tensor& x) {
          x.add_(1);
          return x * 2;
        },
        {.backend = backend});
    Tensor x = row({1, 2});
    EXPECT_EQ(values(f(x)), (Floats{4, 6})) << backend;
    EXPECT_EQ(values(x), (Floats{2, 3})) << backend;
    EXPECT_EQ(values(f(x)), (Floats{6, 8})) << backend;
    EXPECT_EQ(values(x), (Floats{3, 4})) << backend;
  }
}

TEST(Compile, AWriteThroughAViewReachesItsBase) {
  for (const char* backend : {"eager", "aot_eager"}) {
    auto f = compile(
        [](const Tensor& x) {
          Tensor y = x.clone();
          y.select(0, 0).mul_(10);
          y.slice(1, 0, 1).add_(1);
          return y;
        },
        {.backend = backend});
    Tensor x = ones({2, 2});
    for (int i = 0; i < 3; ++i) EXPECT_EQ(values(f(x)), (Floats{11, 10, 2, 1})) << backend;
    EXPECT_EQ(f.stats().compiles, 1);
  }
}

TEST(Compile, AnOutputThatIsAnInputIsTheSameTensor) {
  for (const char* backend : {"eager", "aot_eager"}) {
    auto f = compile([](const Tensor& x) { return std::pair{x, x + 1}; }, {.backend = backend});
    Tensor x = row({1});
    f(x);
    EXPECT_TRUE(f(x).first.is_same(x)) << backend;
  }
}

TEST(Compile, AnOutputThatViewsAnInputSharesItsMemory) {
  for (const char* backend : {"eager", "aot_eager"}) {
    auto f = compile([](const Tensor& x) { return x.transpose(0, 1); }, {.backend = backend});
    Tensor x = ones({2, 3});
    f(x);
    Tensor y = f(x);
    y.fill_(7);
    EXPECT_EQ(values(x), Floats(6, 7.0f)) << backend;
  }
}

TEST(Compile, ArgumentsThatAreOneTensorGetCodeOfTheirOwn) {
  auto f = compile(
      [](const Tensor& a, const Tensor& b) {
        a.add_(1);
        return a + b;
      },
      eager);
  Tensor x = row({1});
  EXPECT_EQ(values(f(row({1}), row({1}))), Floats{3});
  EXPECT_EQ(values(f(x, x)), Floats{4});
  EXPECT_EQ(f.stats().compiles, 2);
}

TEST(Compile, ATensorCapturedByReferenceIsReadAnew) {
  Tensor w = row({2});
  auto patch = config::patch({{"capture.mode", std::string("hit")}});
  auto f = compile([&w](const Tensor& x) { return x * w; }, eager);
  EXPECT_EQ(values(f(row({3}))), Floats{6});
  Tensor old = w;  // keeps the first one alive
  w = row({10});
  EXPECT_EQ(values(f(row({3}))), Floats{30});
}

TEST(Compile, ACapturedNumberThatChangesIsFoundAndTheBodyRunsFromThenOn) {
  float factor = 2;
  auto f = compile([&factor](const Tensor& x) { return x * factor; }, eager);
  for (int i = 0; i < 3; ++i) f(row({1}));
  factor = 5;
  float last = 0;
  for (int i = 0; i < 20; ++i) last = values(f(row({1})))[0];
  EXPECT_EQ(last, 5);
}

TEST(Compile, ATensorStoredOutsideOfTheFunctionIsUsable) {
  Tensor kept;
  auto f = compile(
      [&kept](const Tensor& x) {
        kept = x + 1;
        return kept * 2;
      },
      eager);
  for (float v : {1.0f, 5.0f}) {
    EXPECT_EQ(values(f(row({v}))), Floats{(v + 1) * 2});
    EXPECT_EQ(values(kept), Floats{v + 1});
  }
}

TEST(Compile, ADisabledFunctionRunsOnRealTensors) {
  int calls = 0;
  auto outside = disable([&calls](const Tensor& x) {
    EXPECT_FALSE(is_compiling());
    ++calls;
    return x * float(x.to_vector<float>()[0]);
  });
  auto f = compile([&](const Tensor& x) { return outside(x + 1) + 1; }, eager);
  EXPECT_EQ(values(f(row({1}))), Floats{5});
  EXPECT_EQ(values(f(row({2}))), Floats{10});
  EXPECT_EQ(calls, 2);
}

TEST(Compile, ACompiledFunctionCalledInsideAnotherIsPartOfItsGraph) {
  auto inner = compile([](const Tensor& x) { return x + 1; }, eager);
  auto outer = compile([&](const Tensor& x) { return inner(x) * 2; }, eager);
  EXPECT_EQ(values(outer(row({1}))), Floats{4});
  EXPECT_EQ(outer.stats().compiles, 1);
  EXPECT_EQ(inner.stats().compiles, 0);
}

TEST(Compile, AnExceptionOfTheBodyIsPassedOnAndNothingIsKept) {
  bool fail_now = true;
  auto f = compile(
      [&](const Tensor& x) {
        Tensor y = x + 1;
        if (fail_now) throw std::runtime_error("mine");
        return y;
      },
      eager);
  EXPECT_THROW(f(row({1})), std::runtime_error);
  fail_now = false;
  EXPECT_EQ(values(f(row({1}))), Floats{2});
}

TEST(Compile, TheRecompileLimitEndsInEagerCallsAndResetLiftsIt) {
  auto patch = config::patch({{"dynamo.recompile_limit", int64_t{2}}});
  auto f =
      compile([](const Tensor& x, int n) { return x * n; }, {.backend = "eager", .pure = true});
  for (int n = 1; n <= 5; ++n) EXPECT_EQ(values(f(row({1}), n))[0], static_cast<float>(n));
  EXPECT_EQ(f.stats().compiles, 2);
  EXPECT_EQ(f.stats().eager_calls, 3);
  f.reset();
  f(row({1}), 9);
  EXPECT_EQ(f.stats().compiles, 1);  // counted anew
}

TEST(Compile, ErrorOnRecompileNamesTheReason) {
  auto patch = config::patch({{"dynamo.error_on_recompile", true}});
  auto f = compile([](const Tensor& x) { return x + 1; }, eager);
  f(ones({2}));
  try {
    f(ones({2}).to(Dtype::f64));
    FAIL() << "no error";
  } catch (const UserError& e) {
    EXPECT_EQ(e.code(), ErrorCode::recompile);
    EXPECT_NE(std::string(e.what()).find("dtype expected f32, found f64"), std::string::npos)
        << e.what();
  }
}

TEST(Compile, AMarkedDimensionIsDynamicAtOnceAndItsRangeIsGuarded) {
  auto f = compile([](const Tensor& x) { return x + 1; }, eager);
  Tensor x = ones({4});
  mark_dynamic(x, 0, 2, 16);
  f(x);
  f(ones({9}));
  EXPECT_EQ(f.stats().compiles, 1);
  f(ones({20}));
  EXPECT_EQ(f.stats().compiles, 2);
}

TEST(Compile, AnUnknownBackendIsRefusedWithTheNearestNames) {
  try {
    compile([](const Tensor& x) { return x + 1; }, {.backend = "eagre"});
    FAIL() << "no error";
  } catch (const UserError& e) {
    EXPECT_EQ(e.code(), ErrorCode::invalid_backend);
    EXPECT_NE(std::string(e.what()).find("eager"), std::string::npos) << e.what();
  }
}

TEST(Compile, ManyThreadsMayCallOneCallable) {
  auto f = compile([](const Tensor& x) { return x * x.size(0); }, eager);
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 8; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 50; ++i) {
        int64_t n = 2 + (t + i) % 5;
        if (values(f(ones({n})))[0] != static_cast<float>(n)) ++wrong;
      }
    });
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(wrong, 0);
}

TEST(Compile, GraphBreakCutsTheGraphInTwo) {
  auto f = compile(
      [](const Tensor& x) {
        Tensor y = x + 1;
        graph_break("for the test");
        return y * 2;
      },
      eager);
  EXPECT_EQ(values(f(row({1}))), Floats{4});
  EXPECT_EQ(f.stats().compiles, 2);
  EXPECT_EQ(values(f(row({2}))), Floats{6});
  EXPECT_EQ(f.stats().compiles, 2);
}

// Four lie inline, and a list that outgrows its place moves: whole bodies, cut ones and pure ones.
TEST(Compile, GivesAsManyResultsAsTheBody) {
  for (size_t n : {0, 1, 3, 4, 5, 6, 23, 24, 25, 70})
    for (int kind = 0; kind < 3; ++kind) {
      auto f = compile(
          [n, kind](const Tensor& x) {
            std::vector<Tensor> results;
            for (size_t i = 0; i < n; ++i) results.push_back(x + static_cast<double>(i));
            if (kind == 1) graph_break();
            if (n > 2) results[2] = x;  // an argument, and one tensor twice
            if (n > 5) results[5] = results[4];
            return results;
          },
          {.backend = "eager", .pure = kind == 2});
      for (int call = 0; call < 4; ++call) {
        std::vector<Tensor> results = f(row({10.0f * static_cast<float>(call)}));
        ASSERT_EQ(results.size(), n);
        for (size_t i = 0; i < n; ++i) {
          float plus = i == 2 ? 0 : i == 5 ? 4 : static_cast<float>(i);
          ASSERT_EQ(values(results[i]), Floats{10.0f * static_cast<float>(call) + plus});
        }
      }
    }
}
