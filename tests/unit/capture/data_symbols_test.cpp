// Numbers that depend on data inside compiled functions: symbols of the graph, assertions, and what
// happens where somebody asks for their value.
#include "unit/capture/short.h"
#include "unit/message_of.h"

#include <tenon/compile.h>
#include <tenon/config.h>
#include <tenon/ops.h>

#include <gmock/gmock.h>

using namespace tenon;
using ::testing::HasSubstr;

namespace {

using Floats = std::vector<float>;

Tensor number(int64_t n) { return full({}, n, Dtype::i64); }

class DataSymbols : public ::testing::TestWithParam<const char*> {
 protected:
  Options whole() const { return {.backend = GetParam(), .fullgraph = true}; }
  Options pieces() const { return {.backend = GetParam()}; }
  config::Patch scalars = config::patch({{"dynamo.capture_scalar_outputs", true}});
  config::Patch shapes = config::patch({{"dynamo.capture_dynamic_output_shape_ops", true}});
};

}  // namespace

TEST_P(DataSymbols, AnItemOfAComputedTensorIsASymbolOfTheGraph) {
  auto f = compile(
      [](const Tensor& x, const Tensor& w) {
        SymInt n = (x + 0).item<int64_t>();
        check(n >= 2);
        check(n <= 6);
        return w.slice(0, 0, n).sum() + ones({n}).sum();
      },
      whole());
  Tensor w = ones({6});
  for (int64_t n : {3, 5, 2})
    EXPECT_EQ(f(number(n), w).item<float>(), static_cast<float>(2 * n)) << n;
  EXPECT_EQ(f.stats().compiles, 1);
  EXPECT_THAT(message_of([&] { f(number(7), w); }), HasSubstr("assertion failed: u0 <= 6"));
  EXPECT_EQ(f(number(4), w).item<float>(), 8);
  EXPECT_EQ(f.stats().compiles, 1);
}

// As check() has it: no operation, whose condition would hold the number of the call.
TEST_P(DataSymbols, AssertedNumbersMayDifferFromCallToCall) {
  config::Patch looked_at = config::patch({{"dynamo.capture_scalar_outputs", false}});
  auto f = compile(
      [](const Tensor& x, const Tensor& k) {
        Tensor kept = x.index({x != 0});
        SymInt n = k.item<int64_t>();
        _assert_scalar(n <= x.size(0), "too many");
        return kept.sum() + (x * n).sum();
      },
      pieces());
  for (int64_t n = 3; n < 15; ++n)
    EXPECT_EQ(f(ones({n + 4}), number(n)).item<float>(), static_cast<float>((n + 4) * (n + 1)));
  EXPECT_LE(f.stats().compiles, 4);
  EXPECT_EQ(f.stats().eager_calls, 0);
  EXPECT_THAT(message_of([&] { f(ones({4}), number(5)); }), HasSubstr("too many"));
}

TEST_P(DataSymbols, AnItemThatOnlySizesMentionReachesBothHalvesOfTraining) {
  auto f = compile(
      [](const Tensor& k, const Tensor& x) {
        SymInt n = (k + 0).item<int64_t>();
        check(n >= 1);
        check(n <= 8);
        return (x * n).sum() + full({n}, 2.0).sum();
      },
      whole());
  for (int64_t n : {3, 5}) {
    Tensor x = row({1, 2}).requires_grad_();
    Tensor loss = f(number(n), x);
    EXPECT_EQ(loss.item<float>(), static_cast<float>(5 * n));
    loss.backward();
    EXPECT_EQ(x.grad().to_vector<float>(), Floats(2, static_cast<float>(n)));
  }
  EXPECT_EQ(f.stats().compiles, 1);
  EXPECT_THAT(message_of([&] {
                f(number(9), row({1, 2}).requires_grad_());
              }),
              HasSubstr("assertion failed: u0 <= 8"));
}

TEST_P(DataSymbols, AnItemOfAnArgumentIsGuarded) {
  auto f = compile(
      [](const Tensor& x, const Tensor& w) {
        SymInt n = x.item<int64_t>();
        check(n >= 2);
        check(n <= 6, "at most six rows");
        return w.slice(0, 0, n).sum() + ones({n}).sum();
      },
      whole());
  Tensor w = ones({6});
  for (int64_t n : {3, 5, 2}) EXPECT_EQ(f(number(n), w).item<float>(), static_cast<float>(2 * n));
  EXPECT_THAT(message_of([&] { f(number(7), w); }), HasSubstr("at most six rows"));
  EXPECT_EQ(f(number(2), w).item<float>(), 4);
  EXPECT_EQ(f.stats().compiles, 1);
  EXPECT_THAT(f.explain(), HasSubstr("arg0.item() <= 6"));
}

TEST_P(DataSymbols, AnArgumentThatWasWrittenBeforeIsNoGuard) {
  auto f = compile(
      [](const Tensor& x) {
        x.add_(1);
        SymInt n = x.item<int64_t>();
        return ones({1}) * n;
      },
      whole());
  for (int64_t n : {3, 7, 3})
    EXPECT_EQ(f(number(n)).to_vector<float>(), Floats{static_cast<float>(n + 1)});
  EXPECT_EQ(f.stats().compiles, 1);
}

TEST_P(DataSymbols, ABranchUnderFullgraphIsADataDependentError) {
  auto f = compile(
      [](const Tensor& x) {
        SymInt n = (x + 0).item<int64_t>();
        return n > 3 ? ones({2}) : zeros({2});
      },
      whole());
  try {
    f(number(3));
    FAIL() << "no error";
  } catch (const UserError& error) {
    EXPECT_EQ(error.code(), ErrorCode::data_dependent) << error.what();
    EXPECT_THAT(error.what(), HasSubstr("Could not guard on data-dependent expression"));
  }
  EXPECT_EQ(f.stats().compiles, 0);
}

TEST_P(DataSymbols, ABranchCutsTheGraphAndTakesTheRightSide) {
  auto f = compile(
      [](const Tensor& x, const Tensor& w) {
        SymInt n = (x + 0).item<int64_t>();
        Tensor y = w.slice(0, 0, n) * 2;
        if (n > 3) return y + n;
        return y - n;
      },
      pieces());
  Tensor w = ones({6});
  for (int64_t n : {3, 5, 2, 3, 6, 0}) {
    Floats expected(static_cast<size_t>(n),
                    n > 3 ? 2.0f + static_cast<float>(n) : 2.0f - static_cast<float>(n));
    EXPECT_EQ(f(number(n), w).to_vector<float>(), expected) << n;
  }
  EXPECT_GT(f.stats().graph_breaks, 0);
}

TEST_P(DataSymbols, ABranchCompilesEachPieceOnce) {
  auto f = compile(
      [](const Tensor& x) {
        SymInt n = (x + 0).item<int64_t>();
        return n > 3 ? ones({2}) : zeros({2});
      },
      pieces());
  std::vector<int64_t> compiles;
  for (int64_t n : {3, 5, 2}) {
    EXPECT_EQ(f(number(n)).to_vector<float>(), Floats(2, n > 3 ? 1.0f : 0.0f));
    compiles.push_back(f.stats().compiles);
  }
  EXPECT_EQ(compiles, (std::vector<int64_t>{2, 3, 3}));
}

TEST_P(DataSymbols, PiecesAfterABranchServeOtherNumbers) {
  auto f = compile(
      [](const Tensor& x) {
        SymInt n = (x + 0).item<int64_t>();
        return n > 3 ? ones({2}) * n : zeros({2}) - n;
      },
      pieces());
  for (int64_t n : {4, 5}) f(number(n));
  int64_t compiled = f.stats().compiles;
  for (int64_t n : {6, 7, 8})
    EXPECT_EQ(f(number(n)).to_vector<float>(), Floats(2, static_cast<float>(n)));
  EXPECT_EQ(f.stats().compiles, compiled);
}

TEST_P(DataSymbols, WhatOneRunAssertedDoesNotServeAnother) {
  auto f = compile(
      [](const Tensor& x, bool is_even) {
        SymInt n = (x + 0).item<int64_t>();
        if (is_even) check(n % 2 == 0);
        graph_break();
        return ones({n}).sum() + n / 2 * 2;
      },
      pieces());
  EXPECT_EQ(f(number(6), true).item<float>(), 12);
  EXPECT_EQ(f(number(5), false).item<float>(), 9);
  EXPECT_THAT(message_of([&] { f(number(5), true); }), HasSubstr("assertion failed"));
  EXPECT_EQ(f(number(7), false).item<float>(), 13);
}

TEST_P(DataSymbols, RealAndBoolItemsTakePart) {
  auto f = compile(
      [](const Tensor& x) {
        SymFloat mean = x.mean().item<float>();
        return x * mean + (x.sum().item<double>().sym());
      },
      whole());
  EXPECT_EQ(f(row({1, 3})).to_vector<float>(), (Floats{6, 10}));
  EXPECT_EQ(f(row({0, 2})).to_vector<float>(), (Floats{2, 4}));
  EXPECT_EQ(f.stats().compiles, 1);
  auto g = compile(
      [](const Tensor& x) {
        SymBool positive = (x > 0).all().item<bool>();
        Tensor y = x + 1;
        return positive ? y * 2 : y * 3;
      },
      pieces());
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(g(row({1})).to_vector<float>(), Floats{4});
    EXPECT_EQ(g(row({-1})).to_vector<float>(), Floats{0});
  }
}

TEST_P(DataSymbols, ARealNumberLivesOnAfterACut) {
  auto f = compile(
      [](const Tensor& x) {
        SymFloat mean = x.mean().item<float>();
        Tensor y = x * mean;
        graph_break();
        return y + mean;
      },
      pieces());
  for (float v : {2.0f, 3.0f, 0.0f}) EXPECT_EQ(f(row({v})).to_vector<float>(), Floats{v * v + v});
}

TEST_P(DataSymbols, NonzeroHasASizeOfTheRun) {
  auto f = compile(
      [](const Tensor& x) {
        Tensor at = x.nonzero();
        return std::pair{at.sum(), at.size(0) * 2};
      },
      whole());
  auto run = [&](Tensor x) {
    auto [sum, n] = f(x);
    return std::pair<int64_t, int64_t>(sum.item<int64_t>(), n);
  };
  EXPECT_EQ(run(row({1, 0, 2})), (std::pair<int64_t, int64_t>(2, 4)));
  EXPECT_EQ(run(row({0, 0, 0})), (std::pair<int64_t, int64_t>(0, 0)));
  EXPECT_EQ(run(row({1, 1, 1})), (std::pair<int64_t, int64_t>(3, 6)));
  EXPECT_EQ(f.stats().compiles, 1);
}

TEST_P(DataSymbols, ResultsOfTheRunsSizeArePassedOn) {
  auto f = compile(
      [](const Tensor& x) {
        Tensor chosen = masked_select(x, x > 0);
        Tensor at = x.nonzero();
        return std::tuple{chosen * 2, at.transpose(0, 1), x.slice(0, 0, chosen.size(0))};
      },
      whole());
  for (int i = 0; i < 2; ++i) {
    auto [a, b, c] = f(row({1, -1, 3}));
    EXPECT_EQ(a.to_vector<float>(), (Floats{2, 6}));
    EXPECT_EQ(b.to_vector<int64_t>(), (std::vector<int64_t>{0, 1, 2}));
    EXPECT_EQ(c.to_vector<float>(), (Floats{1, -1}));
    auto [d, e, g] = f(row({-1, 0, -3}));
    EXPECT_EQ(d.size(0), 0);
    EXPECT_EQ(e.to_vector<int64_t>(), (std::vector<int64_t>{0, 2}));
    EXPECT_EQ(g.size(0), 0);
  }
  EXPECT_EQ(f.stats().compiles, 1);
}

TEST_P(DataSymbols, ABranchOnASizeOfTheRunCutsThere) {
  auto f = compile(
      [](const Tensor& x) {
        Tensor chosen = masked_select(x, x > 0) + 1;
        if (chosen.size(0) == 0) return x * 0;
        return chosen * chosen.size(0);
      },
      pieces());
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(f(row({1, -1, 3})).to_vector<float>(), (Floats{4, 8}));
    EXPECT_EQ(f(row({1, 2, 3})).to_vector<float>(), (Floats{6, 9, 12}));
    EXPECT_EQ(f(row({-1, -2})).to_vector<float>(), (Floats{0, 0}));
    EXPECT_EQ(f(row({5})).to_vector<float>(), (Floats{6}));
  }
}

TEST_P(DataSymbols, SizesThatMustMatchAreAssertedBeforeTheyAreUsed) {
  auto f =
      compile([](const Tensor& x,
                 const Tensor& y) { return masked_select(x, x > 0) + masked_select(y, y > 0); },
              whole());
  EXPECT_EQ(f(row({1, -1}), row({2, -2})).to_vector<float>(), Floats{3});
  EXPECT_EQ(f(row({1, 2}), row({2, 5})).to_vector<float>(), (Floats{3, 7}));
  EXPECT_THAT(message_of([&] { f(row({1, 2}), row({2, -5})); }), HasSubstr("assertion failed"));
}

TEST_P(DataSymbols, AnUnbackedDimensionServesEverySize) {
  auto f = compile([](const Tensor& x) { return x * 7 + x.size(0); }, pieces());
  for (int64_t n : {4, 9, 1, 0}) {
    Tensor x = ones({n});
    mark_unbacked(x, 0);
    EXPECT_EQ(f(x).to_vector<float>(),
              Floats(static_cast<size_t>(n), 7.0f + static_cast<float>(n)));
  }
  EXPECT_EQ(f.stats().compiles, 1);
  EXPECT_THAT(f.explain(), HasSubstr("arg0.size(0) >= 0"));
}

TEST_P(DataSymbols, ABranchOnAnUnbackedDimensionCutsOrIsAnError) {
  auto body = [](const Tensor& x) {
    Tensor y = x + 1;
    return x.size(0) > 2 ? y * x.size(0) : y;
  };
  auto f = compile(body, pieces());
  auto strict = compile(body, whole());
  for (int64_t n : {4, 1, 3, 0, 5}) {
    Tensor x = ones({n});
    mark_unbacked(x, 0);
    float expected = n > 2 ? 2.0f * static_cast<float>(n) : 2.0f;
    EXPECT_EQ(f(x).to_vector<float>(), Floats(static_cast<size_t>(n), expected)) << n;
    EXPECT_THAT(message_of([&] { strict(x); }), HasSubstr("data-dependent expression"));
  }
}

TEST_P(DataSymbols, AnUnbackedSizeOfOneIsGuardedByItsStride) {
  auto f = compile([](const Tensor& x) { return x + 0; }, pieces());
  Tensor column = arange(6).to(Dtype::f32).reshape({2, 3}).select(1, 0);  // stride 3
  Tensor one = column.slice(0, 0, 1);
  mark_unbacked(one, 0);
  f(one);
  for (Tensor x : {row({1, 2, 3}), column, one}) {
    mark_unbacked(x, 0);
    EXPECT_EQ(f(x).to_vector<float>(), x.to_vector<float>());
  }
}

TEST_P(DataSymbols, ASizeThatIsSqueezedIsNot1InAnyCall) {
  auto all = compile([](const Tensor& x) { return (x * 2).squeeze(); }, pieces());
  auto one = compile([](const Tensor& x, const Tensor& m) { return x.masked_select(m).squeeze(0); },
                     whole());
  for (int64_t n : {3, 0, 1, 2}) {
    Tensor x = ones({1, n});
    mark_unbacked(x, 1);
    auto both = [&] { return cat({all(x), one(arange(4), arange(4) < n)}); };
    if (n == 1)
      EXPECT_THAT(message_of(both),
                  HasSubstr("assertion failed: u0 != 1 (arg0.size(1) != 1): squeeze leaves out"));
    else
      EXPECT_EQ(both().size(0), 2 * n);
  }
  EXPECT_THAT(message_of([&] { one(arange(4), arange(4) < 1); }), HasSubstr("u0 != 1: squeeze"));
}

TEST_P(DataSymbols, AChecksTensorIsLookedAtWhenTheCodeRuns) {
  auto f = compile(
      [](const Tensor& x) {
        check((x > 0).all(), "x must be positive");
        return x * 2;
      },
      whole());
  EXPECT_EQ(f(row({1, 2})).to_vector<float>(), (Floats{2, 4}));
  EXPECT_THAT(message_of([&] { f(row({1, -2})); }), HasSubstr("x must be positive"));
  EXPECT_EQ(f.stats().compiles, 1);
}

TEST_P(DataSymbols, AChecksFailureIsAnErrorWithoutCompile) {
  EXPECT_THAT(message_of([] { check(1 > 2, "one is less"); }), HasSubstr("one is less"));
  EXPECT_THAT(message_of([] { check(zeros({1}), "zero"); }), HasSubstr("zero"));
  EXPECT_EQ(message_of([] { check(ones({1})); }), "no error");
}

INSTANTIATE_TEST_SUITE_P(Backends, DataSymbols, ::testing::ValuesIn(backends),
                         [](const auto& info) { return std::string(info.param); });

TEST(DataSymbolsOff, AnItemIsItsValueWithoutTheFlag) {
  auto f = compile(
      [](const Tensor& x) {
        SymInt n = (x + 0).item<int64_t>();
        return ones({n});
      },
      {.backend = "eager"});
  EXPECT_EQ(f(number(3)).size(0), 3);
  EXPECT_EQ(f(number(2)).size(0), 2);
  EXPECT_GT(f.stats().graph_breaks, 0);
}
