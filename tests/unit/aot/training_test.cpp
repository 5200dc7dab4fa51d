// Compiled training: when the backward is compiled, what it is given, what it keeps, and what
// happens where PyTorch gives up.
#include "backend/backend.h"
#include "core/tensor/tensor_impl.h"
#include "graph/artifact.h"
#include "ops/op_table.h"
#include "report/events.h"

#include <tenon/tenon.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

namespace tenon {
namespace {

using testing::DoubleEq;
using testing::ElementsAre;
using testing::HasSubstr;

int64_t count(const char* counter) { return report::counter(counter).value(); }

Tensor leaf(const std::vector<double>& values) {
  return tensor(values, {static_cast<int64_t>(values.size())}).requires_grad_();
}

TEST(Training, CompilesTheBackwardAtTheFirstGradient) {
  auto f = compile([](const Tensor& x) { return (x * x).sum(); }, {.backend = "aot_eager"});
  Tensor x = leaf({1, 2});
  int64_t before = count("aot.backward_compiles");
  Tensor loss = f(x);
  EXPECT_EQ(count("aot.backward_compiles"), before);
  loss.backward();
  f(x).backward();
  EXPECT_EQ(count("aot.backward_compiles"), before + 1);
  EXPECT_THAT(x.grad().to_vector<double>(), ElementsAre(4, 8));
}

TEST(Training, ForceNonLazyBackwardLoweringCompilesItWithTheForward) {
  auto flag = config::patch({{"functorch.force_non_lazy_backward_lowering", true}});
  auto f = compile([](const Tensor& x) { return (x * x).sum(); }, {.backend = "aot_eager"});
  int64_t before = count("aot.backward_compiles");
  f(leaf({1, 2}));
  EXPECT_EQ(count("aot.backward_compiles"), before + 1);
}

TEST(Training, OneNodeStandsForTheFunction) {
  auto f =
      compile([](const Tensor& x) { return ((x * x).sin() + x).sum(); }, {.backend = "aot_eager"});
  EXPECT_EQ(autograd::grad_fn(f(leaf({1, 2}))).name(), "CompiledFunctionBackward");
}

TEST(Training, AResultWithoutGradientCountsAsZero) {
  auto f = compile(
      [](const Tensor& x) {
        return std::pair{x * 2, x * x};
      },
      {.backend = "aot_eager"});
  Tensor x = leaf({1, 2, 3});
  f(x).first.sum().backward();
  EXPECT_THAT(x.grad().to_vector<double>(), ElementsAre(2, 2, 2));
}

// The layout of the result is that of its tangent; another one is copied.
TEST(Training, GuessTangentStridesAsOutputsDecidesTheLayoutOfTangents) {
  static std::vector<std::string> seen;
  register_backend(
      "tells_tangents",
      [](const CompileRequest& request) {
        for (ValueId v : request.graph->inputs())
          if (request.graph->value(v).flags.tangent)
            seen.push_back(to_text(list_of(request.graph->value(v).meta.strides)));
        return interpreter_artifact(request.graph);
      },
      {}, Stage::inference);
  for (bool guess : {true, false}) {
    auto flag = config::patch({{"functorch.guess_tangent_strides_as_outputs", guess}});
    auto f =
        compile([](const Tensor& x) { return (x * 2).t().clone(); }, {.backend = "tells_tangents"});
    Tensor x = ones({2, 3}, Dtype::f64).requires_grad_();
    f(x).backward(ones({3, 2}, Dtype::f64));
    EXPECT_EQ(x.grad().sum().item<double>(), 12);
  }
  EXPECT_THAT(seen, ElementsAre("[1, 3]", "[2, 1]"));
}

TEST(Training, DonatedBufferFreesWhatIsKeptDuringTheBackward) {
  for (bool donated : {true, false}) {
    auto flag = config::patch({{"functorch.donated_buffer", donated}});
    auto f = compile([](const Tensor& x) { return x.sin().sin().sum(); }, {.backend = "aot_eager"});
    Tensor x = leaf({1, 2}), loss = f(x);
    loss.backward({}, true);  // PyTorch refuses this one under donation
    Tensor once = x.grad().clone();
    loss.backward();
    EXPECT_TRUE(x.grad().equal(once * 2));
    try {
      loss.backward();
      ADD_FAILURE() << "a third pass after the freeing one";
    } catch (const UserError& error) {
      EXPECT_THAT(error.what(), HasSubstr("a second time"));
    }
  }
}

TEST(Training, GradientsOfGradientsRunTheForwardAgain) {
  auto body = [](const Tensor& x, const Tensor& w) { return (x * w).sin().mul(w).sum(); };
  auto f = compile(body, {.backend = "aot_eager"});
  auto second = [](auto& g) {
    Tensor x = leaf({0.3, 0.7}), w = leaf({1.1, -0.4});
    Tensor first = autograd::grad({g(x, w)}, {w}, {.create_graph = true})[0];
    first.mul(first).sum().backward();
    return std::pair{x.grad().to_vector<double>(), w.grad().to_vector<double>()};
  };
  auto expected = second(body), found = second(f);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_THAT(found.first[i], DoubleEq(expected.first[i]));
    EXPECT_THAT(found.second[i], DoubleEq(expected.second[i]));
  }
}

// The graph does not tell that the tape takes no notice of the write: a wrong result must not come.
TEST(Training, GradientsOfGradientsThroughAHiddenWriteAreAnError) {
  Tensor w = leaf({1, 2});
  auto f = compile(
      [&](const Tensor& x) {
        {
          NoGradGuard off;
          w.mul_(0.5);
        }
        return (x * w * w).sum();
      },
      {.backend = "aot_eager"});
  Tensor x = ones({2}, Dtype::f64);
  f(x).backward();
  EXPECT_THAT(w.grad().to_vector<double>(), ElementsAre(1, 2));
  Tensor loss = f(x);
  EXPECT_THROW(autograd::grad({loss}, {w}, {.create_graph = true}), UserError);
}

TEST(Training, SoAreThoseOfAResultThatWasWritten) {
  Tensor w = leaf({1, 2});
  auto f = compile(
      [&](const Tensor& x) {
        Tensor read = w * x, y = (w * x).sin();
        y.detach().mul_(0.5);
        return std::pair(y, read * w);
      },
      {.backend = "aot_eager"});
  auto [y, read] = f(ones({2}, Dtype::f64));
  // Where the written result gets no gradient, nothing is lost.
  Tensor g = autograd::grad({read.sum()}, {w}, {.create_graph = true})[0];
  EXPECT_THAT(g.detach().to_vector<double>(), ElementsAre(2, 4));
  try {
    autograd::grad({y.sum() + (w * w).sum()}, {w}, {.create_graph = true});
    ADD_FAILURE() << "the gradient of a result is lost";
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(), HasSubstr("reads or returns it afterwards"));
  }
}

TEST(Training, RandomNumbersOfTheForwardAreThoseOfItsGradients) {
  auto f = compile([](const Tensor& x) { return (dropout(x, 0.5, true) * x).sum(); },
                   {.backend = "aot_eager"});
  Tensor x = ones({64}, Dtype::f64).requires_grad_();
  manual_seed(5);
  Tensor loss = f(x);
  loss.backward();
  EXPECT_DOUBLE_EQ(x.grad().sum().item<double>(), 2 * loss.item<double>());
  // Also where the forward runs again for a second derivative.
  manual_seed(5);
  Tensor gradient = autograd::grad({f(x)}, {x}, {.create_graph = true})[0];
  EXPECT_TRUE(gradient.detach().equal(x.grad()));
}

TEST(Training, OneVersionServesOtherSizes) {
  auto f = compile([](const Tensor& x, const Tensor& w) { return (x.matmul(w).relu() * 2).sum(); },
                   {.backend = "aot_eager", .dynamic = true});
  Tensor w = randn({3, 2}, Dtype::f64).requires_grad_();
  for (int64_t rows : {4, 7, 5}) {
    Tensor x = randn({rows, 3}, Dtype::f64);
    w.set_grad({});
    (x.matmul(w).relu() * 2).sum().backward();
    Tensor expected = w.grad().clone();
    w.set_grad({});
    f(x, w).backward();
    EXPECT_TRUE(w.grad().equal(expected)) << rows;
  }
  EXPECT_EQ(f.stats().compiles, 1);
}

TEST(Training, SizesThatTheForwardFindsOutReachTheBackward) {
  auto flags = config::patch({{"dynamo.capture_dynamic_output_shape_ops", true}});
  auto f = compile([](const Tensor& x) { return (masked_select(x, x > 0.0) * 3).sum(); },
                   {.backend = "aot_eager"});
  for (int call = 0; call < 2; ++call) {
    Tensor x = leaf({1, -2, 3, 4.0 * call});
    f(x).backward();
    EXPECT_THAT(x.grad().to_vector<double>(), ElementsAre(3, 0, 3, call ? 3 : 0));
  }
}

TEST(Training, AWriteToWhatTheBackwardNeedsIsFound) {
  auto f =
      compile([](const Tensor& x, const Tensor& w) { return x * w; }, {.backend = "aot_eager"});
  Tensor x = tensor(std::vector<double>{1, 2}, {2}), w = leaf({3, 4});
  Tensor y = f(x, w);
  x.mul_(2.0);
  try {
    y.sum().backward();
    ADD_FAILURE() << "no error";
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(), HasSubstr("was modified in place"));
  }
}

// Names of the ops that the backward half computes.
std::vector<std::string>& backward_ops() {
  static std::vector<std::string> ops;
  static const bool registered = [] {
    register_backend(
        "tells_backward",
        [](const CompileRequest& request) {
          if (request.stage == Stage::backward)
            for (const Node& node : request.graph->nodes()) ops.push_back(entry_of(node.op).name);
          return interpreter_artifact(request.graph);
        },
        {}, Stage::inference);
    return true;
  }();
  EXPECT_TRUE(registered);
  return ops;
}

TEST(Training, ACheckpointedRegionIsComputedAgainInTheBackward) {
  using autograd::checkpoint;
  auto layer = [](const std::vector<Tensor>& in) {
    return std::vector<Tensor>{in[0].matmul(in[1]).tanh()};
  };
  auto body = [&](const Tensor& x, const Tensor& w, bool again) {
    Tensor h = again ? checkpoint(layer, {x, w})[0] : layer({x, w})[0];
    return dropout(h, 0.5, true).matmul(w).sum();
  };
  Tensor x = rand({4, 3}, Dtype::f64), w = rand({3, 3}, Dtype::f64).requires_grad_();
  auto gradient = [&](auto& f, bool again) {
    manual_seed(4);
    return autograd::grad({f(x, w, again)}, {w})[0];
  };
  backward_ops();  // registers the backend
  auto f = compile(body, {.backend = "tells_backward"});
  Tensor expected = gradient(body, false);
  for (bool again : {false, true}) {
    backward_ops().clear();
    Tensor found = gradient(f, again);
    EXPECT_LT((found - expected).abs().amax().item<double>(), 1e-12);
    bool computes_again = std::ranges::count(backward_ops(), "aten.mm.default") > 3;
    EXPECT_EQ(computes_again, again);
  }
}

TEST(Training, CastsOfAutocastAreDifferentiated) {
  auto body = [](const Tensor& x, const Tensor& w) {
    AutocastGuard casts;
    return x.matmul(w).relu().sum(-1).to(Dtype::f32).sum();
  };
  Tensor x = rand({4, 3}), w = rand({3, 3}).requires_grad_();
  body(x, w).backward();
  Tensor expected = w.grad().clone();
  w.set_grad({});
  compile(body, {.backend = "aot_eager"})(x, w).backward();
  EXPECT_TRUE(w.grad().equal(expected));
}

TEST(Training, ThreadsShareOneCompiledBackward) {
  auto f = compile([](const Tensor& x) { return (x.sin() * x).sum(); }, {.backend = "aot_eager"});
  int64_t before = count("aot.backward_compiles");
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 50; ++i) {
        Tensor x = full({8}, 0.1 * t + 0.01 * i, Dtype::f64).requires_grad_();
        f(x).backward();
        Tensor at = x.detach(), expected = at.cos() * at + at.sin();
        if ((x.grad() - expected).abs().amax().item<double>() > 1e-12) ++wrong;
      }
    });
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(count("aot.backward_compiles"), before + 1);
}

TEST(Training, WhatCannotBeDifferentiatedAheadRunsOnTheTape) {
  int64_t before = count("aot.joint_refused");
  auto f = compile(
      [](const Tensor& a, const Tensor& b) {
        Tensor written = a;
        written.mul_(2.0);
        return (written + b).sum();
      },
      {.backend = "aot_eager"});
  Tensor x = leaf({1, 2, 3}), y = x * 1.0;
  f(y, y.narrow(0, 0, 3)).backward();
  EXPECT_THAT(x.grad().to_vector<double>(), ElementsAre(4, 4, 4));
  EXPECT_EQ(count("aot.joint_refused"), before + 1);
}

}  // namespace
}  // namespace tenon
