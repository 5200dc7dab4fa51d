// Backward passes over small programs: values, accumulation, several roots, double backward.
#include "unit/autograd/autograd_test.h"

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

TEST(Writes, AComplexResultIsNoRealTensor) {
  Tensor angle = leaf({1, 2}, {2}), y = ones({2});
  EXPECT_THAT(message_of([&] { y.mul_(polar(angle, angle)); }),
              HasSubstr("a result of dtype c128 cannot be stored in self of dtype f32"));
  EXPECT_FALSE(y.requires_grad());
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
