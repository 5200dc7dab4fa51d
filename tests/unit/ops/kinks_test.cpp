// Gradients where formulas have kinks and poles are PyTorch's, and those beside them differences.
#include "unit/message_of.h"
#include "unit/ops/values_of.h"

#include <tenon/autograd.h>
#include <tenon/tenon.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

namespace tenon {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Gradients = std::vector<std::vector<double>>;
using OfTwo = std::function<Tensor(const Tensor&, const Tensor&)>;

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double log_of_2 = 0.69314718055994530942;

Gradients gradients_of(const OfTwo& f, std::vector<double> x, std::vector<double> y) {
  Tensor a = tensor(x).requires_grad_(), b = tensor(y).requires_grad_();
  f(a, b).sum().backward();
  return {values_of(a.grad()), values_of(b.grad())};
}

void expect_differences(const OfTwo& f, std::vector<double> x, std::vector<double> y) {
  auto both = [&](const std::vector<Tensor>& in) { return std::vector<Tensor>{f(in[0], in[1])}; };
  for (bool twice : {false, true})
    EXPECT_EQ(autograd::grad_check(both, {tensor(x), tensor(y)}, {.second_order = twice}), "");
}

void expect_near(const std::vector<double>& found, const std::vector<double>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) {
    bool is_infinite = std::isinf(expected[i]) && found[i] == expected[i];
    EXPECT_NEAR(is_infinite ? 0 : found[i], is_infinite ? 0 : expected[i],
                1e-12 * std::abs(expected[i]))
        << "element " << i;
  }
}

TEST(Kinks, TheLogarithmOfASigmoidHasASlopeAtZero) {
  Tensor x = tensor({0.0, -0.0, -100.0, infinity}).requires_grad_();
  log_sigmoid(x).sum().backward();
  expect_near(values_of(x.grad()), {0.5, 0.5, 1, 0});
  Tensor logits = zeros({2}, Dtype::f64).requires_grad_();
  binary_cross_entropy_with_logits(logits, tensor({0.0, 1.0}), {}, {}, 2).backward();
  expect_near(values_of(logits.grad()), {0.5, -0.5});
  auto loss = [](const Tensor& a, const Tensor& t) {
    return binary_cross_entropy_with_logits(a, t, {}, {}, 0);
  };
  expect_differences(loss, {-2, 0.5, 3}, {0.25, 0.5, 1});
}

TEST(Kinks, CertaintiesHaveAGradient) {
  auto loss = [](const Tensor& p, const Tensor& t) { return binary_cross_entropy(p, t, {}, 2); };
  Gradients found = gradients_of(loss, {0, 1, 0, 1, 0.25}, {0, 1, 0.25, 0.25, 1});
  expect_near(found[0], {0, 0, -0.25e12, 0.75e12, -4});
  expect_near(found[1], {infinity, -infinity, infinity, -infinity, std::log(3.0)});
  expect_differences(loss, {0.25, 0.5, 0.75}, {0.5, 0.75, 0.125});
}

// A mean is that of all elements that the operands are broadcast to.
TEST(Kinks, ACrossEntropyOfBroadcastOperandsHasTheGradientOfItsParts) {
  auto loss = [](const Tensor& p, const Tensor& t) {
    return binary_cross_entropy(p.unsqueeze(1), t, t + 1, 1);
  };
  expect_differences(loss, {0.25, 0.75}, {0.5, 0.75, 0.125});
}

TEST(Kinks, ProductsWithLogarithmsHaveASlopeAtZero) {
  auto f = [](const Tensor& x, const Tensor& y) { return xlogy(x, y); };
  Gradients found = gradients_of(f, {0, 0, 0, 2}, {2, infinity, -1, 4});
  expect_near(found[0], {log_of_2, infinity, 0, 2 * log_of_2});
  expect_near(found[1], {0, 0, 0, 0.5});
  expect_differences(f, {0, 0.5, -2}, {2, 4, 0.5});
  auto g = [](const Tensor& x, const Tensor& y) { return special_xlog1py(x, y); };
  found = gradients_of(g, {0, 0, 0, 2}, {1, infinity, -1, 3});
  expect_near(found[0], {log_of_2, infinity, 0, 2 * log_of_2});
  expect_differences(g, {0, 0.5, -2}, {2, 4, -0.5});
  Tensor x = zeros({2}, Dtype::f64).requires_grad_();
  (xlogy(x, 2) + special_xlog1py(x, 1) + xlogy(x, 0)).sum().backward();
  EXPECT_THAT(values_of(x.grad()), Each(2 * log_of_2));
}

TEST(Kinks, EqualOperandsShareAGradient) {
  auto f = [](const Tensor& x, const Tensor& y) { return logaddexp2(x, y); };
  Gradients found = gradients_of(f, {0, 3}, {0, 3});
  for (const std::vector<double>& g : found) EXPECT_THAT(g, ElementsAre(0.5, 0.5));
  expect_differences(f, {0, 1, 3}, {0, 2, 3});
}

TEST(Kinks, TheOriginHasNoAngle) {
  auto f = [](const Tensor& y, const Tensor& x) { return atan2(y, x); };
  Gradients found = gradients_of(f, {0, -0.0, 1}, {0, 0, 0});
  EXPECT_THAT(found[0], ElementsAre(0, 0, 0));
  EXPECT_THAT(found[1], ElementsAre(0, 0, -1));
  expect_differences(f, {0.5, 1, -2}, {2, -1, -0.5});
}

std::vector<double> slopes(Tensor (*f)(const Tensor&), std::vector<double> at) {
  Tensor x = tensor(at).requires_grad_();
  f(x).sum().backward();
  return values_of(x.grad());
}

TEST(Kinks, OutsideOfTheirIntervalFunctionsHaveNoSlope) {
  using ::testing::IsNan;
  auto logits = slopes([](const Tensor& x) { return x.logit(); }, {-1, 0, 0.5, 1, 1.5, -infinity});
  EXPECT_THAT(logits, ElementsAre(IsNan(), infinity, 4, infinity, IsNan(), IsNan()));
  auto entropies = slopes([](const Tensor& x) { return special_entr(x); }, {-1, 0, 1, infinity});
  EXPECT_THAT(entropies, ElementsAre(IsNan(), infinity, -1, -infinity));
}

TEST(Kinks, AtTheEndsOfARampTheSlopeIsThatBeyondIt) {
  EXPECT_THAT(slopes([](const Tensor& x) { return hardswish(x); }, {-3, 0, 3, 4, -4}),
              ElementsAre(0, 0.5, 1, 1, 0));
  EXPECT_THAT(slopes([](const Tensor& x) { return hardsigmoid(x); }, {-3, 3}), ElementsAre(0, 0));
  EXPECT_THAT(slopes([](const Tensor& x) { return relu6(x); }, {0, 6}), ElementsAre(0, 0));
  EXPECT_THAT(slopes([](const Tensor& x) { return x.clamp(-1, 1); }, {-1, 1}), ElementsAre(1, 1));
}

TEST(Kinks, ABoundKeepsTheGradientOfNaN) {
  EXPECT_THAT(slopes([](const Tensor& x) { return x.clamp_min(1); }, {NAN, 1, 0}),
              ElementsAre(0, 1, 0));
  EXPECT_THAT(slopes([](const Tensor& x) { return x.clamp_max(1); }, {NAN, 1, 2}),
              ElementsAre(0, 1, 0));
  EXPECT_THAT(slopes([](const Tensor& x) { return softshrink(x); }, {NAN, 0.5, 1}),
              ElementsAre(1, 0, 1));
}

// ---- matrices without an inverse

TEST(Kinks, TheGradientOfADeterminantIsThatOfDifferences) {
  auto det = [](const std::vector<Tensor>& in) { return std::vector<Tensor>{linalg_det(in[0])}; };
  Tensor regular = tensor({{2.0, 1.0, 0.0}, {1.0, 3.0, -1.0}, {0.5, 1.0, 2.0}});
  Tensor singular = tensor({{1.0, 2.0, 3.0}, {4.0, 5.0, 6.0}, {7.0, 8.0, 9.0}});
  for (const Tensor& x : {regular, regular.mT(), stack({regular, regular + 1})})
    EXPECT_EQ(autograd::grad_check(det, {x}, {.second_order = true}), "");
  for (const Tensor& x : {singular, stack({singular, regular}), zeros({1, 1}, Dtype::f64),
                          tensor({{0.0, 1.0}, {0.0, 0.0}}), zeros({2, 3, 3}, Dtype::f64)})
    EXPECT_EQ(autograd::grad_check(det, {x}), "");
}

TEST(Kinks, TheGradientOfAnEmptyDeterminantIsEmpty) {
  Tensor x = zeros({0, 0}).requires_grad_();
  linalg_det(x).backward();
  EXPECT_EQ(x.grad().numel(), 0);
}

// ---- factors

TEST(Kinks, AFactorOfIntegersIsWhole) {
  Tensor x = tensor({{1, 0}, {1, 2}}), b = x.unsqueeze(0);
  EXPECT_THAT(values_of(addbmm(x, b, b, 1.5, 2.5)), ElementsAre(3, 0, 7, 10));
  EXPECT_THAT(values_of(index_add(tensor({3, 5}), 0, tensor({1}), tensor({3}), 1.5)),
              ElementsAre(3, 8));
  EXPECT_THAT(message_of([&] { addr(x, x[0], x[1], 1, 2.5); }), HasSubstr("must be integers"));
  Tensor z = complex(tensor({1.0}), tensor({2.0}));
  EXPECT_THAT(values_of(view_as_real(addr(z.unsqueeze(0), z, z, 1, 1.5))),
              ElementsAre(1 - 4.5, 2 + 6));
}

}  // namespace
}  // namespace tenon
