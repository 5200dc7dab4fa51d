// Gradients through compiled callables, on backends of every stage.
#include "unit/message_of.h"

#include <tenon/autograd.h>
#include <tenon/compile.h>
#include <tenon/control_flow.h>
#include <tenon/ops.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

namespace tenon {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class CompiledGradients : public ::testing::TestWithParam<const char*> {};

TEST_P(CompiledGradients, AreThoseOfTheBody) {
  auto f = compile([](const Tensor& x, const Tensor& w) { return ((x * w).relu() + w).sum(); },
                   {.backend = GetParam()});
  Tensor x = tensor(std::vector<double>{1, -2, 3}, {3});
  Tensor w = tensor(std::vector<double>{4, 5, 6}, {3}).requires_grad_();
  for (int call = 1; call <= 2; ++call) {
    f(x, w).backward();
    EXPECT_THAT(w.grad().to_vector<double>(), ElementsAre(2 * call, 1 * call, 4 * call));
  }
}

TEST_P(CompiledGradients, AreNotRecordedWithoutNeed) {
  auto f = compile([](const Tensor& x) { return x * 2; }, {.backend = GetParam()});
  Tensor x = tensor(std::vector<double>{1}, {1}).requires_grad_();
  NoGradGuard no_grad;
  EXPECT_FALSE(f(x).requires_grad());
}

TEST_P(CompiledGradients, StopWhereTheBodyTurnsThemOff) {
  auto body = [](const Tensor& x, const Tensor& w) {
    Tensor scale;
    {
      NoGradGuard constant;
      scale = w * w;
      EnableGradGuard again;
      scale = scale * w;
    }
    return (x * scale * w).sum();
  };
  Tensor x = tensor(std::vector<double>{1, 2}, {2});
  Tensor w = tensor(std::vector<double>{3, 5}, {2}).requires_grad_();
  body(x, w).backward();
  Tensor eager = w.grad().clone();
  w.set_grad({});
  compile(body, {.backend = GetParam()})(x, w).backward();
  EXPECT_TRUE(w.grad().equal(eager));
}

struct StraightThrough : autograd::Function<StraightThrough> {
  static std::vector<Tensor> forward(autograd::Context&, const std::vector<Tensor>& in) {
    return {in[0].round()};
  }
  static std::vector<Tensor> backward(autograd::Context&, const std::vector<Tensor>& grads) {
    return {grads[0] * 10};
  }
};

TEST_P(CompiledGradients, AreThoseThatAFunctionDefines) {
  auto body = [](const Tensor& w) { return (StraightThrough::apply({w * 2})[0] * w).sum(); };
  Tensor w = tensor(std::vector<double>{1.2, 3.4}, {2}).requires_grad_();
  body(w).backward();
  Tensor eager = w.grad().clone();
  auto f = compile(body, {.backend = GetParam()});
  for (int call = 0; call < 2; ++call) {
    w.set_grad({});
    f(w).backward();
    EXPECT_TRUE(w.grad().equal(eager)) << call;
  }
}

TEST_P(CompiledGradients, OwnFunctionsAndHooksStayOutsideOfBodies) {
  auto applied = [](const Tensor& t) { return StraightThrough::apply({t})[0]; };
  auto hooked = [](const Tensor& t) {
    autograd::register_hook(t, [](const Tensor&) {});
    return t * 2;
  };
  using Body = std::function<Tensor(const Tensor&)>;
  for (const Body& body : {Body(applied), Body(hooked)}) {
    auto f = compile([&](const Tensor& x) { return cond(x.sum() > 0, body, body, x); },
                     {.backend = GetParam()});
    Tensor x = tensor(std::vector<double>{1, 2}, {2}).requires_grad_();
    EXPECT_THAT(message_of([&] { f(x); }),
                AllOf(HasSubstr("inside of a body of cond at"),
                      HasSubstr("to the tape the body is a part of one operation")));
  }
}

TEST_P(CompiledGradients, AreSeenInTheBody) {
  std::vector<bool> seen;
  auto f = compile(
      [&](const Tensor& x, const Tensor& w) {
        Tensor constant = w.detach() * 2, made = x * w, written = x.clone();
        seen = {constant.requires_grad(), made.requires_grad(), (x > made).requires_grad(),
                written.mul_(w).requires_grad()};
        return made;
      },
      {.backend = GetParam()});
  f(ones({2}), ones({2}).requires_grad_());
  EXPECT_THAT(seen, ElementsAre(false, true, false, true));
}

TEST_P(CompiledGradients, FollowATensorThatEscapes) {
  Tensor kept;
  auto f = compile(
      [&](const Tensor& w) {
        kept = w * 3;
        return kept + 1;
      },
      {.backend = GetParam()});
  Tensor w = ones({2}).requires_grad_();
  f(w);
  kept.sum().backward();
  EXPECT_THAT(w.grad().to_vector<float>(), ElementsAre(3, 3));
}

TEST_P(CompiledGradients, RefuseAHookThatWouldSeeAPartOfAGradient) {
  auto f = compile(
      [](const Tensor& w) {
        Tensor y = w * 3, loss = y.sum();
        graph_break("here");
        autograd::register_hook(y, [](const Tensor& g) { return g * 2; });
        return loss + y.sum();
      },
      {.backend = GetParam()});
  Tensor w = ones({2}).requires_grad_();
  for (int call = 0; call < 2; ++call) try {
      f(w);
      FAIL();
    } catch (const UserError& e) {
      EXPECT_STREQ(e.what(),
                   "register_hook: the body has computed other results from the tensor before a "
                   "graph break, whose part of its gradient would not be seen; call register_hook "
                   "before the graph break");
    }
}

TEST_P(CompiledGradients, GoThroughACut) {
  auto body = [](const Tensor& x, const Tensor& w) {
    Tensor a = x * w;
    double first = a.sum().item<double>();
    return (a * first).sum();
  };
  Tensor x = tensor(std::vector<double>{1, 2}, {2});
  Tensor w = tensor(std::vector<double>{3, 5}, {2}).requires_grad_();
  auto f = compile(body, {.backend = GetParam()});
  for (int call = 0; call < 2; ++call) {
    w.set_grad({});
    f(x, w).backward();
    EXPECT_THAT(w.grad().to_vector<double>(), ElementsAre(13, 26)) << call;
  }
}

// The graph is cut while gradients are off, and what was recorded is run later, while they are on,
// and the other way round.
TEST_P(CompiledGradients, FollowTheModeUnderWhichASegmentWasRecorded) {
  auto body = [](const Tensor& x, const Tensor& w) {
    Tensor a = x * w, b;
    {
      NoGradGuard constant;
      if (a.sum().item<double>() > 0) a = a * w;
      b = w * w;
    }
    return (a * w + b * w).sum();
  };
  Tensor x = tensor(std::vector<double>{1, 2}, {2});
  Tensor w = tensor(std::vector<double>{3, 5}, {2}).requires_grad_();
  body(x, w).backward();
  Tensor eager = w.grad().clone();
  auto f = compile(body, {.backend = GetParam()});
  for (int call = 0; call < 2; ++call) {
    w.set_grad({});
    f(x, w).backward();
    EXPECT_TRUE(w.grad().equal(eager)) << call;
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, CompiledGradients, ::testing::Values("eager", "aot_eager"));

}  // namespace
}  // namespace tenon
