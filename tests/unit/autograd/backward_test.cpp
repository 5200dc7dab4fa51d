// Backward passes over small programs: values, accumulation, several roots, double backward.
#include "unit/autograd/autograd_test.h"

#include <functional>
#include <thread>

namespace tenon {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Backward, GivesGradientsOfLeaves) {
  Tensor x = leaf({1, 2, 3}, {3}), w = leaf({4, 5, 6}, {3});
  (x * w).sum().backward();
  EXPECT_THAT(numbers(x.grad()), ElementsAre(4, 5, 6));
  EXPECT_THAT(numbers(w.grad()), ElementsAre(1, 2, 3));
}

TEST(Backward, AddsUpOverPassesAndUses) {
  Tensor x = leaf({2}, {1});
  Tensor y = x * x + x;
  y.backward({}, true);
  y.backward();
  EXPECT_THAT(numbers(x.grad()), ElementsAre(10));
}

TEST(Backward, SumsOverBroadcastDimensions) {
  Tensor x = leaf({1, 2, 3}, {3, 1}), b = leaf({1, 2}, {2});
  (x * b).sum().backward();
  EXPECT_THAT(numbers(x.grad()), ElementsAre(3, 3, 3));
  EXPECT_THAT(numbers(b.grad()), ElementsAre(6, 6));
}

TEST(Backward, OfSeveralRootsIsThatOfTheirSum) {
  Tensor x = leaf({3}, {1});
  autograd::backward({x * x, x * 5}, {});
  EXPECT_THAT(numbers(x.grad()), ElementsAre(11));
}

TEST(Backward, NeedsAGradientForMoreThanOneElement) {
  Tensor x = leaf({1, 2}, {2});
  EXPECT_THAT(message_of([&] { (x * 2).backward(); }), HasSubstr("outputs of one element only"));
  (x * 2).backward(tensor(std::vector<double>{1, 10}, {2}));
  EXPECT_THAT(numbers(x.grad()), ElementsAre(2, 20));
}

TEST(Backward, SaysWhenNothingNeedsAGradient) {
  EXPECT_THAT(message_of([&] { ones({1}, Dtype::f64).backward(); }),
              HasSubstr("needs no gradient"));
}

TEST(Backward, ASecondPassWithoutRetainGraphIsAnError) {
  Tensor x = leaf({1, 2}, {2});
  Tensor y = (x * x).sum();
  y.backward();
  EXPECT_THAT(message_of([&] { y.backward(); }), HasSubstr("retain_graph = true"));
}

TEST(Grad, LeavesTheGradientsOfLeavesAlone) {
  Tensor x = leaf({3}, {1});
  std::vector<Tensor> g = autograd::grad({x * x}, {x});
  EXPECT_THAT(numbers(g[0]), ElementsAre(6));
  EXPECT_FALSE(x.grad().defined());
}

TEST(Grad, OfAnIntermediateTensor) {
  Tensor x = leaf({3}, {1});
  Tensor y = x * x, z = y * y;
  EXPECT_THAT(numbers(autograd::grad({z}, {y})[0]), ElementsAre(18));
}

TEST(Grad, OfUnusedInputsIsAnErrorUnlessAllowed) {
  Tensor x = leaf({3}, {1}), other = leaf({1}, {1});
  EXPECT_THAT(message_of([&] { autograd::grad({x * x}, {other}); }), HasSubstr("allow_unused"));
  EXPECT_FALSE(autograd::grad({x * x}, {other}, {.allow_unused = true})[0].defined());
}

TEST(Grad, CreateGraphGivesHigherDerivatives) {
  Tensor x = leaf({2}, {1});
  Tensor y = x * x * x;
  Tensor first = autograd::grad({y}, {x}, {.create_graph = true})[0];
  Tensor second = autograd::grad({first}, {x}, {.create_graph = true})[0];
  EXPECT_THAT(numbers(first), ElementsAre(12));
  EXPECT_THAT(numbers(second), ElementsAre(12));
  EXPECT_THAT(numbers(autograd::grad({second}, {x})[0]), ElementsAre(6));
}

TEST(Grad, DerivedFormulasAreDifferentiatedAgain) {
  Tensor x = leaf({0.5}, {1});
  Tensor first = autograd::grad({x.sin().exp()}, {x}, {.create_graph = true})[0];
  double s = std::sin(0.5), c = std::cos(0.5);
  EXPECT_NEAR(numbers(autograd::grad({first}, {x})[0])[0], std::exp(s) * (c * c - s), 1e-12);
}

TEST(GradMode, NoGradGuardStopsRecording) {
  Tensor x = leaf({2}, {1});
  NoGradGuard no_grad;
  Tensor y = x * x;
  EXPECT_FALSE(y.requires_grad());
  EnableGradGuard again;
  EXPECT_TRUE((x * x).requires_grad());
}

TEST(GradMode, InferenceModeRecordsNothing) {
  Tensor x = leaf({2}, {1});
  InferenceMode inference;
  EXPECT_FALSE(is_grad_enabled());
  EXPECT_FALSE((x * x).requires_grad());
}

TEST(GradMode, DetachCutsTheTape) {
  Tensor x = leaf({2}, {1});
  Tensor y = (x * x).detach();
  EXPECT_FALSE(y.requires_grad());
  EXPECT_TRUE(y.is_leaf());
}

TEST(RetainGrad, KeepsTheGradientOfAnIntermediateTensor) {
  Tensor x = leaf({2}, {1});
  Tensor y = x * x;
  y.retain_grad();
  (y * 3).backward();
  EXPECT_THAT(numbers(y.grad()), ElementsAre(3));
}

TEST(Versions, AWriteToASavedTensorIsFound) {
  Tensor x = leaf({1, 2}, {2}), scale = tensor(std::vector<double>{3, 4}, {2});
  Tensor y = x * scale;
  scale.add_(1);
  EXPECT_THAT(message_of([&] { y.sum().backward(); }),
              testing::AllOf(HasSubstr("MulBackward"), HasSubstr("modified in place"),
                             HasSubstr("expected version")));
}

TEST(Versions, AWriteToASavedResultIsFound) {
  Tensor x = leaf({1, 2}, {2});
  Tensor y = x.exp();
  y.mul_(2);
  EXPECT_THAT(message_of([&] { y.sum().backward(); }), HasSubstr("modified in place"));
}

TEST(InPlace, LeavesMustNotBeWritten) {
  Tensor x = leaf({1, 2}, {2});
  EXPECT_THAT(message_of([&] { x.mul_(2); }), HasSubstr("a leaf that needs a gradient"));
  EXPECT_THAT(message_of([&] { x.select(0, 0).mul_(2); }), HasSubstr("a view of a leaf"));
  NoGradGuard no_grad;
  x.mul_(2);
  EXPECT_THAT(numbers(x), ElementsAre(2, 4));
}

TEST(InPlace, TheTapeFollowsWrites) {
  Tensor x = leaf({1, 2}, {2});
  Tensor y = x * 1;
  y.mul_(y.detach() + 2);
  y.sum().backward();
  EXPECT_THAT(numbers(x.grad()), ElementsAre(3, 4));
}

TEST(Views, AWriteThroughAViewReachesTheBase) {
  Tensor x = leaf({1, 2, 3, 4}, {2, 2});
  Tensor y = x * 1;
  y.select(0, 1).mul_(10);
  (y * tensor(std::vector<double>{1, 2, 3, 4}, {2, 2})).sum().backward();
  EXPECT_THAT(numbers(x.grad()), ElementsAre(1, 2, 30, 40));
}

TEST(Views, AWriteToTheBaseReachesItsViews) {
  Tensor x = leaf({1, 2}, {2});
  Tensor y = x * 1, v = y.select(0, 1);
  y.mul_(5);
  v.backward();
  EXPECT_THAT(numbers(x.grad()), ElementsAre(0, 5));
}

TEST(Views, ABufferFilledThroughViewsComesToNeedAGradient) {
  Tensor x = leaf({3}, {1}), buffer = zeros({2, 1}, Dtype::f64);
  Tensor first = buffer.select(0, 0), second = buffer.select(0, 1);
  first.copy_(x);
  second.copy_(x * 2);
  EXPECT_TRUE(buffer.requires_grad());
  EXPECT_TRUE(first.requires_grad());
  buffer.sum().backward();
  EXPECT_THAT(numbers(x.grad()), ElementsAre(3));
}

TEST(Views, ViewsOfABufferWrittenByAnotherViewNeedAGradient) {
  Tensor x = leaf({3}, {1}), buffer = zeros({2, 1}, Dtype::f64);
  Tensor whole = buffer.view({2}), row = buffer.select(0, 0);
  row.copy_(x);
  (whole * 4).sum().backward();
  EXPECT_THAT(numbers(x.grad()), ElementsAre(4));
}

// Asking changes nothing.
TEST(Views, AnOlderViewAsksItsBaseAgain) {
  Tensor base = tensor(std::vector<double>{1, 2}), older = base.select(0, 0);
  base.mul_(2.0);
  Tensor later = base.select(0, 0);
  EXPECT_FALSE(older.requires_grad());
  base.requires_grad_();
  EXPECT_TRUE(older.requires_grad());
  EXPECT_FALSE(later.requires_grad());
  (older * 3.0).backward();
  EXPECT_THAT(numbers(base.grad()), ElementsAre(3, 0));
}

TEST(Views, AViewMadeWithoutGradientsMustNotBeWrittenWithThem) {
  Tensor x = leaf({1, 2}, {2});
  Tensor y = x * 1, v;
  {
    NoGradGuard no_grad;
    v = y.select(0, 0);
  }
  EXPECT_THAT(message_of([&] { v.mul_(2); }), HasSubstr("made while gradients were off"));
}

// What all its elements get for one of the base is added up.
TEST(Views, AViewThatShowsAnElementTwiceIsReadFromItsBase) {
  Tensor x = leaf({1, 2, 3}, {3}), factors = tensor(std::vector<double>{1, 2, 3, 4, 5, 6}, {2, 3});
  Tensor y = x * 1, repeated = y.unsqueeze(0).expand({2, 3}), windows = y.unfold(0, 2, 1);
  y.mul_(2);
  (repeated * factors).sum().backward({}, true);
  EXPECT_THAT(numbers(x.grad()), ElementsAre(10, 14, 18));
  x.set_grad({});
  (windows * factors.slice(1, 0, 2)).sum().backward();
  EXPECT_THAT(numbers(x.grad()), ElementsAre(2, 12, 10));
}

TEST(Views, OneOfComplexNumbersThatShowsThemTwice) {
  Tensor x = leaf({1, 2}, {2}), buffer = zeros({2}, Dtype::c128);
  Tensor repeated = buffer.unsqueeze(0).expand({3, 2});
  buffer.add_(complex(x, x));
  (view_as_real(repeated) * tensor(std::vector<double>{1, 10})).sum().backward();
  EXPECT_THAT(numbers(x.grad()), ElementsAre(33, 33));
}

// The gradient that arrives is a row of a larger one.
TEST(Views, APartThatIsScatteredByPlace) {
  Tensor x = leaf({1, 2}, {2}), part = leaf({3}, {1}), other = leaf({5, 6}, {2});
  Tensor all = stack({other, as_strided_scatter(x, part, {1}, {1}, 0)});
  (all * tensor({1.0, 2.0, 4.0, 8.0}).view({2, 2})).sum().backward();
  EXPECT_THAT(numbers(x.grad()), ElementsAre(0, 8));
  EXPECT_THAT(numbers(part.grad()), ElementsAre(4));
}

TEST(Views, AViewIsLaidOutAnew) {
  Tensor x = leaf({1, 2, 3, 4, 5, 6}, {2, 3}), y = x * 1, v = y.alias();
  v.t_();
  EXPECT_EQ(autograd::grad_fn(v).name(), "TBackward");
  (v * tensor(std::vector<double>{1, 2, 3, 4, 5, 6}, {3, 2})).sum().backward({}, true);
  EXPECT_THAT(numbers(x.grad()), ElementsAre(1, 3, 5, 2, 4, 6));
  x.set_grad({});
  v.select(0, 0).mul_(2);
  (y * tensor(std::vector<double>{1, 2, 3, 4, 5, 6}, {2, 3})).sum().backward({}, true);
  EXPECT_THAT(numbers(x.grad()), ElementsAre(2, 2, 3, 8, 5, 6));
  x.set_grad({});
  (v * tensor(std::vector<double>{1, 2, 3, 4, 5, 6}, {3, 2})).sum().backward();
  EXPECT_THAT(numbers(x.grad()), ElementsAre(2, 3, 5, 4, 4, 6));
}

TEST(Views, ADetachedViewDoesNotFollowItsBase) {
  Tensor x = leaf({1, 2}, {2}), v = x.view({2, 1}), y = x * 2, of_y = y.view({2, 1});
  v.detach_(), of_y.detach_();
  {
    NoGradGuard off;
    v.add_(1);
  }
  y.add_(1);
  EXPECT_THAT(numbers(x), ElementsAre(2, 3));
  EXPECT_FALSE(v.requires_grad());
  EXPECT_FALSE(of_y.requires_grad());
  of_y.mul_(x.detach().view({2, 1}));
  EXPECT_FALSE(of_y.requires_grad());
}

// Neither schema says that it gives a view.
TEST(Views, OpsThatAreMadeOfViewsMakeThemWithoutGradients) {
  Tensor x = leaf({1, 2}, {1, 1, 2}), y = x * 1, shuffled, broadcast;
  {
    NoGradGuard off;
    shuffled = pixel_shuffle(y, 1);
    broadcast = broadcast_tensors({y, y})[1];
  }
  for (const Tensor& view : {shuffled, broadcast})
    EXPECT_THAT(message_of([&] { view.mul_(2); }), HasSubstr("made while gradients were off"));
  EXPECT_THAT(numbers(y), ElementsAre(1, 2));
}

// As where the result is a tensor of its own.
TEST(Writes, WhatHasNoDerivativeEndsTheGradient) {
  using Write = std::function<void(const Tensor&, const Tensor&)>;
  const Write writes[] = {
      [](const Tensor& v, const Tensor&) { v.gt_(1.5); },
      [](const Tensor& v, const Tensor& x) { v.ge_(x); },
      [](const Tensor& v, const Tensor&) { v.logical_not_(); },
      [](const Tensor& v, const Tensor& x) { v.logical_xor_(x); },
      [](const Tensor& v, const Tensor& x) { v.heaviside_(x.detach()); },
      [](const Tensor& v, const Tensor& x) { v.floor_divide_(x); },
      [](const Tensor& v, const Tensor&) { v.select(0, 1).lt_(2); },
  };
  for (const Write& write : writes) {
    Tensor x = leaf({0.25, 0.75}, {2}), v = x * 3, apart = v.detach().clone();
    write(v, x);
    write(apart, x.detach());
    EXPECT_TRUE(v.requires_grad());
    std::vector<double> expected = numbers(apart);
    bool is_part = &write == &writes[6];
    if (is_part) expected[0] = 2 * 3 * 0.25;
    (v * x).sum().backward();
    EXPECT_EQ(numbers(x.grad()), expected);
  }
}

TEST(Writes, AComparisonWithWhatNeedsAGradientNeedsNone) {
  Tensor x = leaf({1, 2}, {2}), mask = zeros({2}, Dtype::f64);
  EXPECT_FALSE(mask.lt_(x).requires_grad());
  Tensor y = x * complex(ones({2}, Dtype::f64), ones({2}, Dtype::f64));
  y.eq_(y.detach());
  EXPECT_TRUE(y.requires_grad());
  view_as_real(y).sum().backward();
  EXPECT_THAT(numbers(x.grad()), ElementsAre(0, 0));
}

TEST(Writes, AComplexResultIsNoRealTensor) {
  Tensor angle = leaf({1, 2}, {2}), y = ones({2});
  EXPECT_THAT(message_of([&] { y.mul_(polar(angle, angle)); }),
              HasSubstr("a result of dtype c128 cannot be stored in self of dtype f32"));
  EXPECT_FALSE(y.requires_grad());
}

// d2/dx0^2 of log(e^x0 + e^x1) is p (1 - p).
TEST(Backward, OfRunningSumsOfExponentialsTwice) {
  Tensor x = leaf({0, 0}, {2});
  Tensor slope = autograd::grad({x.logcumsumexp(0).select(0, 1)}, {x}, {.create_graph = true})[0];
  EXPECT_THAT(numbers(autograd::grad({slope[0]}, {x}, {.retain_graph = true})[0]),
              ElementsAre(0.25, -0.25));
  // Each sign of a gradient goes its own way.
  Tensor both = (x.logcumsumexp(0) * tensor<double>({1, -1})).sum();
  Tensor g = autograd::grad({both}, {x}, {.create_graph = true})[0];
  EXPECT_THAT(numbers(autograd::grad({g[1]}, {x})[0]), ElementsAre(0.25, -0.25));
}

TEST(Threads, PassesOverCommonNodesAddUp) {
  Tensor x = leaf({1, 2, 3}, {3});
  Tensor shared = x.exp() * 2;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] {
      for (int k = 0; k < 50; ++k) shared.sum().backward({}, true);
    });
  for (std::thread& t : threads) t.join();
  for (size_t i = 0; i < 3; ++i)
    EXPECT_NEAR(numbers(x.grad())[i], 400 * std::exp(static_cast<double>(i + 1)), 1e-6);
}

TEST(Tape, ALongChainEndsWithoutNesting) {
  Tensor x = leaf({1}, {1});
  Tensor y = x;
  for (int i = 0; i < 200'000; ++i) y = y + 0.0;
  y.backward();
  EXPECT_THAT(numbers(x.grad()), ElementsAre(1));
}

}  // namespace
}  // namespace tenon
