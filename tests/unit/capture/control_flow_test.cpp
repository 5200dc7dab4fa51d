// Branches and loops that stay in the graph: the answer is the eager one, data decides at the call,
// and what a body may not do ends in an error that names both places.
#include "unit/capture/short.h"
#include "unit/message_of.h"

#include <tenon/autograd.h>
#include <tenon/compile.h>
#include <tenon/config.h>
#include <tenon/control_flow.h>
#include <tenon/ops.h>

#include <gmock/gmock.h>

using namespace tenon;
using ::testing::AllOf;
using ::testing::HasSubstr;

namespace {

using Floats = std::vector<float>;

Tensor halved_or_doubled(const Tensor& x) {
  return cond(
      x.sum() > 0, [](const Tensor& t) { return t * 2; }, [](const Tensor& t) { return t / 2; }, x);
}

// The largest power of two below `limit`, and how many steps that took.
std::tuple<Tensor, Tensor> powers(const Tensor& x, const Tensor& limit) {
  return while_loop([&](const Tensor& v, const Tensor&) { return v.sum() * 2 < limit; },
                    [](const Tensor& v, const Tensor& n) { return std::tuple(v * 2, n + 1); }, x,
                    zeros({}, Dtype::i64));
}

struct Running {
  Tensor total, peak;
};

// Running sums and the largest of them.
std::pair<Running, Tensor> sums(const Tensor& xs, const Tensor& factor) {
  Running start{zeros({xs.size(1)}), full({xs.size(1)}, -100.0)};
  return scan(
      [&](const Running& now, const Tensor& x) {
        Tensor total = now.total + x * factor;
        return std::pair(Running{total, maximum(now.peak, total)}, total * 10);
      },
      start, xs);
}

class ControlFlow : public ::testing::TestWithParam<const char*> {
 protected:
  Options whole() const { return {.backend = GetParam(), .fullgraph = true}; }

  /// Results and gradients of a function of two tensors, compiled and not, are equal.
  template <class F>
  void expect_equal_gradients(F fn, const Tensor& x, const Tensor& w) {
    auto run = [&](auto&& f) {
      Tensor a = x.clone().requires_grad_(), b = w.clone().requires_grad_();
      Tensor y = f(a, b);
      y.sum().backward();
      // What the branch that ran does not use has no gradient on the tape, and zeros in a graph.
      auto gradient = [](const Tensor& t) {
        return values(t.grad().defined() ? t.grad() : t.detach().zeros_like());
      };
      return std::tuple(values(y), gradient(a), gradient(b));
    };
    auto compiled = compile(fn, whole());
    EXPECT_EQ(run(compiled), run(fn));
    EXPECT_EQ(compiled.stats().graph_breaks, 0);
  }
};

}  // namespace

TEST_P(ControlFlow, DataChoosesTheBranchWithoutARecompile) {
  auto f = compile(halved_or_doubled, whole());
  for (Tensor x : {row({1, 2}), row({-1, -2}), row({3, -1})})
    EXPECT_EQ(values(f(x)), values(halved_or_doubled(x)));
  EXPECT_EQ(f.stats().compiles, 1);
  EXPECT_EQ(f.stats().graph_breaks, 0);
}

TEST_P(ControlFlow, AConditionOnSizesKeepsBothBranches) {
  auto f = compile(
      [](const Tensor& x) {
        return cond(
            x.size(0) > 3, [](const Tensor& t) { return t + 100; },
            [](const Tensor& t) { return t - 100; }, x);
      },
      Options{.backend = GetParam(), .fullgraph = true, .dynamic = true});
  EXPECT_EQ(values(f(zeros({5}))), Floats(5, 100));
  EXPECT_EQ(values(f(zeros({2}))), Floats(2, -100));
  EXPECT_EQ(f.stats().compiles, 1);
}

TEST_P(ControlFlow, SizesInWhichBranchesDifferAreKnownAtRunTime) {
  auto f = compile(
      [](const Tensor& x) {
        Tensor y = cond(
            x.sum() > 0, [](const Tensor& t) { return t.slice(0, 0, 2); },
            [](const Tensor& t) {
              return cat({t, t});
            },
            x);
        return y + 1;
      },
      whole());
  EXPECT_EQ(values(f(row({1, 2, 3}))), (Floats{2, 3}));
  EXPECT_EQ(values(f(row({-1, -2, -3}))), (Floats{0, -1, -2, 0, -1, -2}));
  EXPECT_EQ(f.stats().compiles, 1);
}

TEST_P(ControlFlow, BodiesUseTensorsFromAround) {
  Tensor captured = row({10, 20});
  auto f = compile(
      [&](const Tensor& x, const Tensor& y) {
        Tensor z = y + 1;
        return cond(
            x.sum() > 0, [&] { return x * z; }, [&] { return z + captured; });
      },
      whole());
  EXPECT_EQ(values(f(row({1, 2}), row({3, 4}))), (Floats{4, 10}));
  EXPECT_EQ(values(f(row({-1, -2}), row({3, 4}))), (Floats{14, 25}));
  EXPECT_EQ(f.stats().compiles, 1);
}

TEST_P(ControlFlow, AResultIsNoAliasOfAnOperand) {
  auto f = compile(
      [](const Tensor& x) {
        Tensor y = cond(
            x.sum() > 0, [](const Tensor& t) { return t; }, [](const Tensor& t) { return -t; }, x);
        y.add_(1);
        return y + x;
      },
      whole());
  EXPECT_EQ(values(f(row({1, 2}))), (Floats{3, 5}));
  EXPECT_EQ(values(f(row({-1, -2}))), (Floats{1, 1}));
}

TEST_P(ControlFlow, BranchesNestAndGiveTrees) {
  auto fn = [](const Tensor& x) {
    auto inner = [](const Tensor& t) {
      return cond(
          t.sum() > 10, [](const Tensor& u) { return std::pair(u, u * 3); },
          [](const Tensor& u) { return std::pair(u - 1, u * 4); }, t);
    };
    auto [a, b] = cond(
        x.sum() > 0, inner, [](const Tensor& t) { return std::pair(-t, t * 5); }, x);
    return a * 1000 + b;
  };
  auto f = compile(fn, whole());
  EXPECT_EQ(values(f(row({20}))), (Floats{20060}));
  EXPECT_EQ(values(f(row({2}))), (Floats{1008}));
  EXPECT_EQ(values(f(row({-2}))), (Floats{1990}));
  EXPECT_EQ(f.stats().compiles, 1);
}

TEST_P(ControlFlow, ALoopRunsAsOftenAsDataSays) {
  auto f = compile(powers, whole());
  for (float limit : {1.f, 10.f, 1000.f}) {
    auto [v, n] = f(row({1}), full({}, limit));
    auto [wanted_v, wanted_n] = powers(row({1}), full({}, limit));
    EXPECT_EQ(values(v), values(wanted_v)) << limit;
    EXPECT_EQ(n.item<int64_t>(), wanted_n.item<int64_t>()) << limit;
  }
  EXPECT_EQ(f.stats().compiles, 1);
}

TEST_P(ControlFlow, MapStacksWhatTheBodyGivesOfEachSlice) {
  auto fn = [](const Tensor& xs, const Tensor& w) {
    return map([&](const Tensor& x) { return std::pair(x.matmul(w), x.sum()); }, xs);
  };
  Tensor xs = arange(12).to(Dtype::f32).reshape({3, 4}), w = ones({4, 2});
  auto [a, b] = compile(fn, whole())(xs, w);
  EXPECT_EQ(values(a), (Floats{6, 6, 22, 22, 38, 38}));
  EXPECT_EQ(values(b), (Floats{6, 22, 38}));
  EXPECT_EQ(a.sizes().vec(), (std::vector<SymInt>{3, 2}));
}

TEST_P(ControlFlow, ScanCarriesAndStacks) {
  Tensor xs = row({1, 2, -5, 1, 4, 4}).reshape({3, 2});
  auto [last, all] = compile(sums, whole())(xs, full({}, 1.0));
  EXPECT_EQ(values(last.total), (Floats{0, 7}));
  EXPECT_EQ(values(last.peak), (Floats{1, 7}));
  EXPECT_EQ(values(all), (Floats{10, 20, -40, 30, 0, 70}));
}

TEST_P(ControlFlow, NoSlicesGiveEmptyStacks) {
  auto f = compile(sums, whole());
  auto [last, all] = f(zeros({0, 2}), full({}, 1.0));
  EXPECT_EQ(values(last.total), (Floats{0, 0}));
  EXPECT_EQ(all.sizes().vec(), (std::vector<SymInt>{0, 2}));
  auto [eager_last, eager_all] = sums(zeros({0, 2}), full({}, 1.0));
  EXPECT_EQ(values(eager_last.peak), values(last.peak));
  EXPECT_EQ(eager_all.sizes().vec(), all.sizes().vec());
}

TEST_P(ControlFlow, NoSlicesGiveEmptyStacksOfWhatHasABranchInside) {
  auto looped = [](const Tensor& xs) {
    return map(
        [](const Tensor& x) {
          auto [grown, n] = powers(x, full({}, 9.0));
          return std::tuple(halved_or_doubled(grown), n);
        },
        xs);
  };
  auto f = compile(looped, whole());
  for (int64_t n : {2, 0, 3}) {
    auto [rows, counts] = f(ones({n, 2}));
    auto [eager_rows, eager_counts] = looped(ones({n, 2}));
    EXPECT_EQ(values(rows), values(eager_rows));
    EXPECT_EQ(eager_rows.sizes().vec(), (std::vector<SymInt>{n, 2}));
    EXPECT_EQ(eager_counts.dtype(), Dtype::i64);
    EXPECT_TRUE(equal(counts, eager_counts));
  }
}

TEST_P(ControlFlow, AnAssociativeScanIsTheRunningResult) {
  auto fn = [](const Tensor& xs) {
    return associative_scan([](const Tensor& a, const Tensor& b) { return a * b; }, xs);
  };
  Tensor xs = row({1, 2, 3, 4}).reshape({4, 1});
  EXPECT_EQ(values(compile(fn, whole())(xs)), (Floats{1, 2, 6, 24}));
  EXPECT_EQ(values(fn(xs)), (Floats{1, 2, 6, 24}));
}

TEST_P(ControlFlow, LoopsOverSymbolicSizesCompileOnce) {
  auto f = compile([](const Tensor& xs) { return sums(xs, full({}, 2.0)).second; },
                   Options{.backend = GetParam(), .fullgraph = true, .dynamic = true});
  for (int64_t n : {2, 5, 3}) {
    Tensor xs = ones({n, n + 1});
    EXPECT_EQ(values(f(xs)), values(sums(xs, full({}, 2.0)).second)) << n;
  }
  EXPECT_EQ(f.stats().compiles, 1);
}

TEST_P(ControlFlow, BodiesMayWriteWhatTheyMake) {
  auto fn = [](const Tensor& x) {
    return cond(
        x.sum() > 0,
        [](const Tensor& t) {
          Tensor y = t * 2;
          y.slice(0, 0, 1).add_(5);
          return y.mul_(3);
        },
        [](const Tensor& t) { return t.clone().zero_(); }, x);
  };
  auto f = compile(fn, whole());
  EXPECT_EQ(values(f(row({1, 2}))), (Floats{21, 12}));
  EXPECT_EQ(values(f(row({-1, -2}))), (Floats{0, 0}));
}

TEST_P(ControlFlow, AnInnerBodyUsesTensorsFromAroundTheOuterOne) {
  auto fn = [](const Tensor& x, const Tensor& limit) {
    return map(
        [&](const Tensor& v) {
          Tensor doubled = v * 2;
          return while_loop([&](const Tensor& s) { return s.sum() < limit; },
                            [&](const Tensor& s) { return s + doubled; }, v);
        },
        x);
  };
  Tensor x = row({1, 2, 30}).reshape({3, 1}), limit = full({}, 10.0);
  EXPECT_EQ(values(compile(fn, whole())(x, limit)), values(fn(x, limit)));
  EXPECT_EQ(values(fn(x, limit)), (Floats{11, 10, 30}));
}

TEST_P(ControlFlow, ATensorFromAroundIsNoResultItself) {
  Tensor kept = row({7, 8});
  auto f = compile(
      [&](const Tensor& x) {
        Tensor y = cond(
            x.sum() > 0, [&] { return kept; }, [&] { return x; });
        return y.add_(1);
      },
      whole());
  EXPECT_EQ(values(f(row({1, 2}))), (Floats{8, 9}));
  EXPECT_EQ(values(kept), (Floats{7, 8}));
}

TEST_P(ControlFlow, RandomNumbersOfABodyAreFreshInEveryIteration) {
  auto f = compile(
      [](const Tensor& xs) { return map([](const Tensor& x) { return x.rand_like(); }, xs); },
      whole());
  Tensor a = f(zeros({2, 50})), b = f(zeros({2, 50}));
  EXPECT_NE(values(a.select(0, 0)), values(a.select(0, 1)));
  EXPECT_NE(values(a), values(b));
}

// ---- gradients

TEST_P(ControlFlow, AStepWithItsBackwardHasABranch) {
  Tensor w = row({1, 2}).requires_grad_();
  auto step = compile(
      [&](const Tensor& x) {
        Tensor loss = cond(
                          x.sum() > 0, [&](const Tensor& t) { return t * w; },
                          [&](const Tensor& t) { return t * w * w; }, x)
                          .sum();
        loss.backward();
        return loss;
      },
      Options{.backend = GetParam()});
  step(row({3, 4}));
  EXPECT_EQ(values(w.grad()), (Floats{3, 4}));
  w.grad().zero_();
  step(row({-3, -4}));
  EXPECT_EQ(values(w.grad()), (Floats{-6, -16}));
}

TEST_P(ControlFlow, CondHasTheGradientOfTheBranchThatRuns) {
  auto fn = [](const Tensor& x, const Tensor& w) {
    return cond(
        x.sum() > 0, [&](const Tensor& t) { return (t * w).sin(); },
        [&](const Tensor& t) { return t.exp(); }, x);
  };
  expect_equal_gradients(fn, row({1, 2}), row({3, 4}));
  expect_equal_gradients(fn, row({-1, -2}), row({3, 4}));
}

TEST_P(ControlFlow, BranchesOfDifferentSizesHaveGradients) {
  auto fn = [](const Tensor& x, const Tensor& w) {
    return cond(
        x.sum() > 0, [&](const Tensor& t) { return (t * w).slice(0, 0, 2).clone(); },
        [&](const Tensor& t) { return t.exp() * w; }, x);
  };
  auto half = [](const Tensor& x, const Tensor& w) {
    return cond(
        x.sum() > 0, [&](const Tensor& t) { return (t * w).slice(0, 0, t.size(0) / 2).clone(); },
        [&](const Tensor& t) { return t * w; }, x);
  };
  for (float sign : {1.f, -1.f}) {
    Tensor x = row({1, 2, 3}) * sign, w = row({3, 4, 5});
    expect_equal_gradients(fn, x, w);
    expect_equal_gradients(half, x, w);
  }
  auto step = compile([half](const Tensor& x, const Tensor& w) { return half(x, w).sum(); },
                      Options{.backend = GetParam(), .fullgraph = true, .dynamic = true});
  for (int64_t n : {4, 6, -5}) {
    Tensor x = ones({std::abs(n)}) * n, w = ones({std::abs(n)}).requires_grad_();
    step(x, w).backward();
    EXPECT_EQ(w.grad().sum().item<float>(), n > 0 ? n * (n / 2) : n * -n);
  }
}

TEST_P(ControlFlow, ScanHasGradientsOfCarrySlicesAndWhatIsAround) {
  auto fn = [](const Tensor& x, const Tensor& w) {
    auto [last, all] = scan(
        [&](const Tensor& h, const Tensor& t) {
          Tensor next = (h * w + t).tanh();
          return std::pair(next, next * t);
        },
        x.select(0, 0) * 2, x);
    return last * 3 + all.sum(0);
  };
  expect_equal_gradients(fn, row({.1f, .2f, .3f, .4f, .5f, .6f}).reshape({3, 2}), row({.7f, -.8f}));
}

TEST_P(ControlFlow, MapHasGradientsOfSlicesAndWhatIsAround) {
  auto fn = [](const Tensor& x, const Tensor& w) {
    return map([&](const Tensor& t) { return (t * w).exp(); }, x);
  };
  expect_equal_gradients(fn, row({.1f, .2f, .3f, .4f}).reshape({2, 2}), row({.5f, .6f}));
}

TEST_P(ControlFlow, AssociativeScanHasGradients) {
  auto fn = [](const Tensor& x, const Tensor& w) {
    return associative_scan([](const Tensor& a, const Tensor& b) { return a * b; }, x * w);
  };
  expect_equal_gradients(fn, row({1, 2, 3, 4}).reshape({2, 2}), row({.5f, .6f}));
}

TEST_P(ControlFlow, ALoopIsDifferentiatedThroughTheIterationsThatRan) {
  auto fn = [](const Tensor& x, const Tensor& w) {
    return while_loop([&](const Tensor& v) { return v.sum() < 100; },
                      [&](const Tensor& v) { return v * w; }, x);
  };
  expect_equal_gradients(fn, row({1, 2}), row({3, 4}));
}

TEST(ControlFlowGradients, AgreeWithDifferences) {
  auto fn = [](const std::vector<Tensor>& in) {
    auto [last, all] = scan(
        [&](const Tensor& h, const Tensor& t) {
          Tensor next = cond(
              t.sum() > 0, [&] { return h * in[1] + t; }, [&] { return (h - t).sin(); });
          return std::pair(next, next * next);
        },
        in[1] * 2, in[0]);
    return std::vector<Tensor>{last + all.sum(0)};
  };
  Tensor x = tensor({.3, -.7, .9}).reshape({3, 1}), w = tensor({.4});
  EXPECT_EQ(autograd::grad_check(fn, {x, w}), "");
}

// ---- what is refused

TEST_P(ControlFlow, LookingAtDataInABodyNamesBothPlaces) {
  auto f = compile(
      [](const Tensor& x) {
        return cond(
            x.sum() > 0, [](const Tensor& t) { return t * t.sum().item<float>(); },
            [](const Tensor& t) { return t; }, x);
      },
      Options{.backend = GetParam()});
  auto g = compile(
      [](const Tensor& x) {
        return cond(
            x.sum() > 0, [](const Tensor& t) { return t.sum().item<float>() > 2 ? t : -t; },
            [](const Tensor& t) { return t; }, x);
      },
      Options{.backend = GetParam()});
  for (auto error : {message_of([&] { g(row({1, 2})); })})
    EXPECT_THAT(error, AllOf(HasSubstr("item() looks at data at"), HasSubstr("of cond at"),
                             HasSubstr("control_flow_test.cpp")));
  EXPECT_THAT(message_of([&] { f(row({1, 2})); }), HasSubstr("inside of a body of cond at"));
}

TEST_P(ControlFlow, ABodyMustNotWriteItsOperands) {
  auto f = compile(
      [](const Tensor& x) {
        return cond(
            x.sum() > 0, [](const Tensor& t) { return t.clone(); },
            [](const Tensor& t) { return t.mul(1).add_(Tensor(t).add_(1)); }, x);
      },
      whole());
  EXPECT_THAT(
      message_of([&] {
        f(row({1, 2}));
      }),
      AllOf(HasSubstr("GraphBreakError: aten.add_.Scalar writes operand 0 (f32[2]), inside of a "
                      "body of cond at "),
            HasSubstr("control_flow_test.cpp")));
}

TEST_P(ControlFlow, BranchesMustAgreeInType) {
  auto f = compile(
      [](const Tensor& x) {
        return cond(
            x.sum() > 0, [](const Tensor& t) { return t; },
            [](const Tensor& t) { return t.to(Dtype::f64); }, x);
      },
      whole());
  EXPECT_THAT(message_of([&] {
                f(row({1, 2}));
              }),
              HasSubstr("result 0 is f32[2] of true_graph and f64[2] of false_graph"));
}

TEST_P(ControlFlow, WhatIsCarriedKeepsItsSizes) {
  auto fn = [](const Tensor& x) {
    return while_loop([](const Tensor& v) { return v.sum() < 10; },
                      [](const Tensor& v) {
                        return cat({v, v});
                      },
                      x);
  };
  EXPECT_THAT(message_of([&] {
                compile(fn, whole())(row({1, 2}));
              }),
              HasSubstr("result 0 of body_graph is f32[4]; expected f32[2]"));
  EXPECT_THAT(message_of([&] { fn(row({1, 2})); }), HasSubstr("carried value 0 was"));
}

TEST_P(ControlFlow, BranchesMustTakeTheSameForGrantedAboutSizes) {
  auto only_one = [](const Tensor& x) {
    return cond(
        x.sum() > 0, [](const Tensor& t) { return t * t.size(0).guard_int(); },
        [](const Tensor& t) { return t + 1; }, x);
  };
  auto both = [](const Tensor& x) {
    return cond(
        x.sum() > 0, [](const Tensor& t) { return t * t.size(0).guard_int(); },
        [](const Tensor& t) { return t + t.size(0).guard_int(); }, x);
  };
  Options dynamic{.backend = GetParam(), .fullgraph = true, .dynamic = true};
  EXPECT_THAT(message_of([&] { compile(only_one, dynamic)(ones({3})); }),
              AllOf(HasSubstr("different things for granted about sizes"),
                    HasSubstr("true_graph arg0.size(0) == 3"), HasSubstr("false_graph nothing")));
  EXPECT_EQ(values(compile(both, dynamic)(ones({3}))), (Floats{3, 3, 3}));

  config::Patch off = config::patch({{"dynamo.enforce_cond_guards_match", false}});
  auto f = compile(only_one, dynamic);
  EXPECT_EQ(values(f(ones({3}))), (Floats{3, 3, 3}));
  EXPECT_EQ(values(f(-ones({4}))), (Floats{0, 0, 0, 0}));
  EXPECT_EQ(f.stats().compiles, 2);  // the guard of one branch holds for both
}

INSTANTIATE_TEST_SUITE_P(Backends, ControlFlow, ::testing::ValuesIn(backends));
