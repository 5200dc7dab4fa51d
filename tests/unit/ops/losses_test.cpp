// A loss takes the three reductions that there are, and refuses other numbers. The loss of linear
// scores in chunks is the loss of those scores, with the gradients that the tape gives.
#include "unit/message_of.h"
#include "unit/ops/values_of.h"

#include <tenon/tenon.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

namespace tenon {
namespace {

using ::testing::HasSubstr;

TEST(Losses, OtherReductionsAreRefused) {
  Tensor x = tensor({{0.5f, -1.0f}, {2.0f, 0.25f}}), y = zeros_like(x), none;
  Tensor classes = tensor({int64_t{0}, int64_t{1}}), total = tensor(2.0f);
  const std::function<void(int64_t)> calls[] = {
      [&](int64_t r) { mse_loss(x, y, r); },
      [&](int64_t r) { huber_loss(x, y, r); },
      [&](int64_t r) { mse_loss_backward(tensor(1.0f), x, y, r); },
      [&](int64_t r) { nll_loss_forward(x, classes, none, r, -100); },
      [&](int64_t r) { nll_loss_backward(tensor(1.0f), x, classes, none, r, -100, total); },
      [&](int64_t r) { cross_entropy_loss(x, softmax(x, 1), none, r); },
      [&](int64_t r) { multi_margin_loss(x, classes, 1, 1, none, r); },
      [&](int64_t r) { multilabel_margin_loss(x, zeros_like(x, Dtype::i64), r); },
  };
  for (const auto& call : calls) {
    call(2);
    for (int64_t r : {-4, 3})
      EXPECT_THAT(message_of([&] { call(r); }), HasSubstr("reduction must be 0 (none), 1 (mean)"));
  }
}

void expect_equal_losses(const Tensor& found, const Tensor& expected) {
  std::vector<double> a = values_of(found.contiguous()), b = values_of(expected.contiguous());
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], 1e-12) << "element " << i;
}

struct LinearLoss {
  Tensor x = randn({5, 3}).to(Dtype::f64).requires_grad_();
  Tensor w = randn({4, 3}).to(Dtype::f64).requires_grad_();
  Tensor bias = randn({4}).to(Dtype::f64).requires_grad_();
  Tensor weight = rand({4}).to(Dtype::f64);

  void check(const Tensor& target, const char* name, int64_t reduction, int64_t ignored) {
    auto [loss, of_x, of_w, of_bias] = torch_nn::_linear_cross_entropy_batch_chunked(
        x, w, target, bias, weight, name, ignored, 0, 2, "compact", Dtype::f64, true, true, true,
        true);
    Tensor expected = cross_entropy_loss(linear(x, w, bias), target, weight, reduction, ignored);
    expect_equal_losses(loss, expected);
    expected.backward();
    expect_equal_losses(of_x, x.grad());
    expect_equal_losses(of_w, w.grad());
    expect_equal_losses(of_bias, bias.grad());
    x.set_grad({});
    loss.backward();
    expect_equal_losses(of_x, x.grad());
  }
};

// Numbers of PyTorch: a margin of 2.5 is 2 there, and 255 is what 2 lacks of 3 in u8.
TEST(Losses, TheHingeOfIntegersIsInIntegers) {
  Tensor x = tensor<int64_t>({3, 0, 1, 2, 3}), target = tensor<int64_t>({1, -1, 1, -1, -1});
  Tensor loss = hinge_embedding_loss(x, target, 2.5, 0);
  EXPECT_EQ(loss.to_vector<int64_t>(), (std::vector<int64_t>{3, 2, 1, 0, 0}));
  Tensor bytes = hinge_embedding_loss(x.to(Dtype::u8), target, 2.5, 0);
  EXPECT_EQ(bytes.to_vector<uint8_t>(), (std::vector<uint8_t>{3, 2, 1, 0, 255}));
  EXPECT_EQ(hinge_embedding_loss(x, target, 2.5, 2).item<int64_t>(), 6);
}

TEST(Losses, OfLinearScoresInChunksIsTheLossOfTheScores) {
  Tensor classes = tensor({int64_t{0}, int64_t{3}, int64_t{1}, int64_t{1}, int64_t{2}});
  Tensor shares = softmax(randn({5, 4}).to(Dtype::f64), 1);
  for (auto [name, number] : {std::pair{"mean", 1}, {"sum", 2}}) {
    LinearLoss().check(classes, name, number, 1);
    LinearLoss().check(shares, name, number, -100);
  }
}

TEST(Losses, OfLinearScoresInChunksWithoutReduction) {
  LinearLoss l;
  for (const Tensor& target : {tensor({int64_t{0}, int64_t{3}, int64_t{1}, int64_t{1}, int64_t{2}}),
                               softmax(randn({5, 4}).to(Dtype::f64), 1)})
    expect_equal_losses(torch_nn::_linear_cross_entropy_batch_chunked_no_reduction(
                            l.x, l.w, target, l.bias, l.weight, 1, 2, "compact", Dtype::f64),
                        cross_entropy_loss(linear(l.x, l.w, l.bias), target, l.weight, 0, 1));
}

TEST(Losses, GradientsThatAreNotAskedForHaveNoElements) {
  LinearLoss l;
  auto [loss, of_x, of_w, of_bias] = torch_nn::_linear_cross_entropy_batch_chunked(
      l.x, l.w, softmax(randn({5, 4}).to(Dtype::f64), 1), l.bias, {}, "sum", -100, 0, 2, "compact",
      Dtype::f64, true, false, true, false);
  EXPECT_EQ(of_x.numel(), 0);
  EXPECT_EQ(of_w.numel(), 12);
  EXPECT_EQ(of_bias.numel(), 0);
}

}  // namespace
}  // namespace tenon
