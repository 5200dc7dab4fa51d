// Rounding to few-bit integers gives what PyTorch 2.14 gives; its numbers stand here.
#include "unit/message_of.h"

#include <tenon/tenon.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace tenon {
namespace {

using ::testing::HasSubstr;

Tensor example() {
  return tensor({{-0.8f, -0.14f, 0.0f, 0.15f, 0.26f}, {0.35f, 0.95f, 1.1f, NAN, -3.0f}});
}

void expect_near(const Tensor& found, const std::vector<double>& expected, double distance) {
  std::vector<double> values = found.to(Dtype::f64).flatten().to_vector<double>();
  ASSERT_EQ(values.size(), expected.size());
  for (size_t i = 0; i < values.size(); ++i) EXPECT_NEAR(values[i], expected[i], distance) << i;
}

void expect_values(const Tensor& found, const std::vector<double>& expected) {
  expect_near(found, expected, 1e-7);
}

const std::vector<double> by_tensor{-0.6, -0.1, 0, 0.2, 0.3, 0.4, 0.7, 0.7, -0.6, -0.6};
const std::vector<double> tensor_mask{0, 1, 1, 1, 1, 1, 0, 0, 0, 0};

TEST(FakeQuantize, ByOneScale) {
  auto [values, mask] = fake_quantize_per_tensor_affine_cachemask(example(), 0.1, 2, -4, 9);
  expect_values(values, by_tensor);
  expect_values(mask, tensor_mask);
  EXPECT_EQ(mask.dtype(), Dtype::bool_);
  expect_values(fake_quantize_per_tensor_affine(example(), 0.1, 2, -4, 9), by_tensor);
  Tensor scale = tensor({0.1f}), zero_point = tensor({2}).to(Dtype::i32);
  expect_values(fake_quantize_per_tensor_affine(example(), scale, zero_point, -4, 9), by_tensor);
}

TEST(FakeQuantize, ByChannelWithWholeAndBrokenZeroPoints) {
  Tensor scale = tensor({0.1f, 0.25f});
  auto whole = fake_quantize_per_channel_affine_cachemask(example(), scale,
                                                          tensor({1, -2}).to(Dtype::i32), 0, -4, 5);
  expect_values(whole.output, {-0.5, -0.1, 0, 0.2, 0.3, 0.25, 1, 1, -0.5, -0.5});
  expect_values(whole.mask, {0, 1, 1, 1, 1, 1, 1, 1, 0, 0});
  expect_values(fake_quantize_per_channel_affine(example(), scale, tensor({1.3f, -2.6f}), 0, -4, 5),
                {-0.53, -0.13, -0.03, 0.17, 0.27, 0.4, 0.9, 1.15, -0.35, -0.35});
}

TEST(FakeQuantize, OffLeavesTheTensorAsItIs) {
  auto off = _fake_quantize_per_tensor_affine_cachemask_tensor_qparams(
      example().nan_to_num(), tensor({0.1f}), tensor({2}).to(Dtype::i32), tensor({0}), -4, 9);
  EXPECT_TRUE(equal(off.output, example().nan_to_num()));
  EXPECT_TRUE(off.mask.all().item<bool>());
}

TEST(FakeQuantize, TheGradientPassesWithinTheRange) {
  for (const char* backend : {"", "eager", "aot_eager"}) {
    auto body = [](const Tensor& x) {
      Tensor scale = tensor({0.1f, 0.25f}), zero_point = tensor({1, -2}).to(Dtype::i32);
      Tensor q = fake_quantize_per_channel_affine(x, scale, zero_point, 0, -4, 5);
      return q.mul(arange(10).reshape({2, 5})).sum();
    };
    Tensor x = example().nan_to_num().requires_grad_();
    (*backend ? compile(body, {.backend = backend})(x) : body(x)).backward();
    expect_values(x.grad(), {0, 1, 2, 3, 4, 5, 6, 7, 8, 0});
  }
}

TEST(FakeQuantize, WhatDoesNotFitIsNamed) {
  auto per_tensor = [](const Tensor& x, int64_t zero_point, int64_t low) {
    return message_of([&] { fake_quantize_per_tensor_affine(x, 0.1, zero_point, low, 9); });
  };
  EXPECT_THAT(per_tensor(zeros({2}), 10, 0), HasSubstr("zero_point must lie between"));
  EXPECT_THAT(per_tensor(zeros({2}), 10, 11), HasSubstr("must not be above quant_max"));
  EXPECT_THAT(per_tensor(zeros({2}, Dtype::i32), 0, 0), HasSubstr("a floating dtype is expected"));
  auto per_channel = [](int64_t axis, const Tensor& scale, const Tensor& zero_point) {
    return message_of(
        [&] { fake_quantize_per_channel_affine(example(), scale, zero_point, axis, 0, 9); });
  };
  EXPECT_THAT(per_channel(2, ones({2}), zeros({2})), HasSubstr("axis must be a dimension"));
  EXPECT_THAT(per_channel(0, ones({3}), zeros({3})), HasSubstr("for each of 2 channels"));
  EXPECT_THAT(per_channel(0, ones({2}), zeros({2}, Dtype::i64)), HasSubstr("i32, f32 or f16"));
}

Tensor numbers() {
  return tensor({{-0.8f, -0.14f, 0.0f, 0.15f, 0.26f}, {0.35f, 0.95f, 1.1f, 0.5f, -3.0f}});
}

Tensor weights() { return arange(10, Dtype::f32).reshape({2, 5}) - 3.0; }

TEST(FakeQuantize, OneScaleAndItsZeroPointAreLearned) {
  struct Sample {
    float zero_point;
    std::vector<double> values, of_numbers;
    double of_scale, of_zero_point;
  };
  const std::vector<double> usual{-0.6, -0.1, 0, 0.2, 0.3, 0.4, 0.7, 0.7, 0.5, -0.6};
  const std::vector<double> usual_slope{0, -2, -1, 0, 1, 2, 0, 0, 5, 0};
  const Sample samples[] = {{2.3f, usual, usual_slope, 15.8, -0.5},
                            {2.5f, usual, usual_slope, 9.8, -0.5},
                            {20,
                             {-0.8, -0.1, 0, 0, 0, 0, 0, 0, 0, -1.3},
                             {-3, -2, -1, 0, 0, 0, 0, 0, 0, 0},
                             -39.4,
                             -1.05}};
  auto body = [](const Tensor& x, const Tensor& scale, const Tensor& zero_point) {
    return _fake_quantize_learnable_per_tensor_affine(x, scale, zero_point, -4, 9, 0.5);
  };
  for (const char* backend : {"", "eager", "aot_eager"}) {
    auto compiled = compile(body, {.backend = *backend ? backend : "eager"});
    for (const Sample& s : samples) {
      Tensor x = numbers().requires_grad_(), scale = tensor({0.1f}).requires_grad_();
      Tensor zero_point = tensor({s.zero_point}).requires_grad_();
      Tensor y = *backend ? compiled(x, scale, zero_point) : body(x, scale, zero_point);
      (y * weights()).sum().backward();
      expect_values(y.detach(), s.values);
      expect_values(x.grad(), s.of_numbers);
      expect_near(scale.grad(), {s.of_scale}, 1e-5);
      expect_near(zero_point.grad(), {s.of_zero_point}, 1e-6);
    }
  }
}

TEST(FakeQuantize, AWholeTensorHasOneScaleThatIsLearned) {
  Tensor x = numbers(), none = tensor(0.0f);
  EXPECT_THAT(message_of([&] {
                _fake_quantize_learnable_per_tensor_affine(x, tensor({0.1f, 0.2f}), none, -4, 9);
              }),
              HasSubstr("of one element are expected"));
  Tensor scale = tensor(0.1f).requires_grad_();
  _fake_quantize_learnable_per_tensor_affine(x, scale, none, -4, 9).sum().backward();
  EXPECT_EQ(scale.grad().dim(), 0);
}

TEST(FakeQuantize, ScalesAndZeroPointsOfChannelsAreLearned) {
  for (const char* backend : {"eager", "aot_eager"}) {
    auto f = compile(
        [](const Tensor& x, const Tensor& scale, const Tensor& zero_point) {
          return _fake_quantize_learnable_per_channel_affine(x, scale, zero_point, 0, -4, 5, 0.5);
        },
        {.backend = backend});
    Tensor x = numbers().requires_grad_(), scale = tensor({0.1f, 0.25f}).requires_grad_();
    Tensor zero_point = tensor({1.3f, -2.6f}).requires_grad_(), y = f(x, scale, zero_point);
    (y * weights()).sum().backward();
    expect_values(y.detach(), {-0.5, -0.1, 0, 0.2, 0.3, 0.25, 1, 1, 0.5, -0.25});
    expect_values(x.grad(), {0, -2, -1, 0, 1, 2, 3, 4, 5, 0});
    expect_near(scale.grad(), {7.3, -3.9}, 1e-5);
    expect_near(zero_point.grad(), {0.15, -0.75}, 1e-6);
  }
}

}  // namespace
}  // namespace tenon
