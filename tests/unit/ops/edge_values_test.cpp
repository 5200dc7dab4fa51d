// Arguments at the edge of what ops take have PyTorch's results, or an error that names them.
#include "unit/message_of.h"
#include "unit/ops/values_of.h"

#include <tenon/tenon.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace tenon {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(EdgeValues, ClassesAreNotCountedFromTheEnd) {
  Tensor scores = tensor({{3.0F, 2.0F, 1.0F}}), last = tensor({int64_t{-1}});
  EXPECT_THAT(message_of([&] { multi_margin_loss(scores, last); }), HasSubstr("index -1 is out"));
  EXPECT_THAT(message_of([&] { multi_margin_loss_backward(ones({}), scores, last, 1, 1); }),
              HasSubstr("index -1 is out"));
  EXPECT_THAT(message_of([&] { one_hot(last, 3); }), HasSubstr("must not be negative, found -1"));
  EXPECT_THAT(message_of([&] { one_hot(last - 6); }), HasSubstr("must not be negative, found -7"));
  EXPECT_THAT(message_of([&] { one_hot(last + 4, 3); }),
              HasSubstr("class 3 is out of bounds for 3"));
  EXPECT_THAT(message_of([&] { one_hot(zeros({0}, Dtype::i64)); }), HasSubstr("num_classes"));
  EXPECT_THAT(values_of(one_hot(tensor({int64_t{2}, int64_t{0}}))), ElementsAre(0, 0, 1, 1, 0, 0));
}

TEST(EdgeValues, AnEmptyBatchLeavesRunningStatistics) {
  for (Dtype dtype : {Dtype::f32, Dtype::f64}) {
    Tensor mean = tensor({1.0, 2.0}).to(dtype), variance = tensor({3.0, 4.0}).to(dtype);
    Tensor x = zeros({0, 2}, dtype);
    EXPECT_EQ(batch_norm(x, {}, {}, mean, variance, true, 0.5, 0.25, false).sizes()[0], 0);
    auto [y, m, r, next_mean, next_variance] =
        _native_batch_norm_legit_functional(x, {}, {}, mean, variance, true, 0.5, 0.25);
    EXPECT_THAT(values_of(m), ElementsAre(0, 0));
    EXPECT_THAT(values_of(r), ElementsAre(2, 2));
    native_batch_norm(x, {}, {}, mean, variance, true, 0.5, 0.25);
    for (const Tensor& t : {mean, next_mean}) EXPECT_THAT(values_of(t), ElementsAre(1, 2));
    for (const Tensor& t : {variance, next_variance}) EXPECT_THAT(values_of(t), ElementsAre(3, 4));
  }
}

TEST(EdgeValues, ATensorWithoutDimensionsHasOneElementToChoose) {
  Tensor seven = tensor(7.0F);
  for (int64_t n : {0, 2, 6})
    EXPECT_THAT(message_of([&] { index_select(seven, 0, zeros({n}, Dtype::i64)); }),
                HasSubstr("must have one element"));
  EXPECT_THAT(values_of(index_select(seven, 0, zeros({1}, Dtype::i64))), ElementsAre(7));
  for (int64_t k : {0, 1}) {
    auto [values, places] = topk(seven, k);
    EXPECT_THAT(values_of(values), ElementsAre(7));
    EXPECT_THAT(values_of(places), ElementsAre(0));
  }
}

TEST(EdgeValues, AMaskWithoutDimensionsGivesADimension) {
  Tensor x = tensor({1.0F, 2.0F}), all = tensor(true), none = tensor(false);
  EXPECT_EQ(to_text(x[all]), "f32[1, 2]");
  EXPECT_EQ(to_text(x[none]), "f32[0, 2]");
  EXPECT_EQ(to_text(x.index({none.to(Dtype::u8)})), "f32[0, 2]");
  EXPECT_THAT(values_of(x.index_put({none}, tensor(9.0F))), ElementsAre(1, 2));
  EXPECT_THAT(values_of(x.index_put({all}, tensor({8.0F, 9.0F}))), ElementsAre(8, 9));
  EXPECT_THAT(values_of(x.index_put({all}, tensor(9.0F), true)), ElementsAre(10, 11));
  x.index_put_({none}, tensor(9.0F));
  EXPECT_THAT(values_of(x), ElementsAre(1, 2));
}

TEST(EdgeValues, AWindowInThePaddingHasNoPlace) {
  for (Dtype dtype : {Dtype::f32, Dtype::f16}) {
    Tensor x = ones({1, 1, 1}, dtype).requires_grad_();
    auto [largest, places] = max_pool2d_with_indices(x, {2, 2}, {3, 3}, {1, 1}, {2, 2}, true);
    EXPECT_THAT(values_of(places), ElementsAre(-1));
    largest.sum().backward();
    EXPECT_THAT(values_of(x.grad()), ElementsAre(0));
  }
}

// Also where the formula of the size comes out as 0.
TEST(EdgeValues, AKernelIsNoLargerThanItsPaddedInput) {
  auto result = [](int64_t batch, int64_t size, int64_t kernel, int64_t padding, int64_t stride) {
    return conv1d(ones({batch, 2, size}), ones({3, 2, kernel}), {}, {stride}, {padding}).size(2);
  };
  EXPECT_EQ(result(1, 2, 2, 0, 1), 1);
  EXPECT_EQ(result(1, 1, 3, 1, 2), 1);
  for (int64_t batch : {0, 1})
    for (int64_t stride : {1, 2}) {
      EXPECT_THAT(message_of([&] { result(batch, 1, 2, 0, stride); }), HasSubstr("does not fit"));
      EXPECT_THAT(message_of([&] { result(batch, 1, 4, 1, stride); }), HasSubstr("does not fit"));
    }
  EXPECT_THAT(message_of([&] {
                conv2d(ones({1, 2, 2, 5}), ones({3, 2, 3, 3}));
              }),
              HasSubstr("the kernel of shape [3, 2, 3, 3] does not fit"));
  EXPECT_EQ(conv_transpose1d(ones({0, 2, 1}), ones({2, 3, 2}), {}, {1}, {1}).size(2), 0);
}

TEST(EdgeValues, TheDtypeOfAQuantileIsCheckedWhereItIsRecorded) {
  Tensor x = ones({3}, Dtype::f16);
  for (bool records : {false, true}) {
    x.requires_grad_(records);
    EXPECT_THAT(message_of([&] { quantile(x, 0.5, 0); }), HasSubstr("f32 or f64 is expected"));
  }
}

TEST(EdgeValues, IntegersSumWhatIsANumber) {
  Tensor x = tensor({std::nan(""), 1.75, 2.5});
  for (Dtype dtype : {Dtype::i32, Dtype::i64, Dtype::u8})
    EXPECT_THAT(values_of(nansum(x, {}, false, dtype)), ElementsAre(3));
}

TEST(EdgeValues, ARealElementHoldsNoComplexValue) {
  Tensor value = complex(tensor(3.0), tensor(4.0));
  EXPECT_THAT(message_of([&] { masked_fill(tensor({1.0}), tensor({true}), value); }),
              HasSubstr("elements of f64 cannot hold a value of c128"));
}

// As ATen's kernels for CPUs do; products and activations take numbers as they are.
TEST(EdgeValues, NumbersAreRoundedToTheHalvesTheyMeet) {
  for (Dtype dtype : {Dtype::f16, Dtype::bf16}) {
    Tensor x = randn({200}).to(dtype), y = x.abs() + 1, z = randn({200}).to(dtype);
    auto of = [&](double number) { return full({}, number, dtype).to(Dtype::f32).item<double>(); };
    auto wide = [](const Tensor& t) { return t.to(Dtype::f32); };
    auto expect_rounded = [&](const Tensor& found, const Tensor& exact) {
      EXPECT_TRUE(equal(found, exact.to(found.dtype())));
    };
    expect_rounded(x + 0.1, wide(x) + of(0.1));
    expect_rounded(x.clone().add_(0.1), wide(x) + of(0.1));
    expect_rounded(x - 0.3, wide(x) - of(0.3));
    expect_rounded(0.3 - x, of(0.3) - wide(x));
    expect_rounded(add(x, z, 0.1), wide(x) + wide(z) * of(0.1));
    expect_rounded(y.remainder(0.3), wide(y).remainder(of(0.3)));
    expect_rounded(y.pow(1.3), wide(y).pow(of(1.3)));
    expect_rounded(x * 0.1, wide(x) * 0.1);
    expect_rounded(x / 3.3, wide(x) / 3.3);
    expect_rounded(leaky_relu(x, 0.3), leaky_relu(wide(x), 0.3));
    EXPECT_TRUE((full({3}, 0.1, dtype) == 0.1).all().item<bool>());
    EXPECT_FALSE((full({3}, 1.7, dtype) > 1.7).any().item<bool>());
  }
  EXPECT_EQ((zeros({1}, Dtype::f16) + 2049).item<double>(), 2048);
}

TEST(EdgeValues, AWiderDivisorIsTakenInTheTypeOfTheResult) {
  Tensor x = tensor({0, 6}).to(Dtype::i32), three_below_2_to_the_32 = tensor(int64_t{4294967293});
  EXPECT_THAT(values_of(gcd(x, three_below_2_to_the_32)), ElementsAre(3, 3));
  EXPECT_THAT(values_of(lcm(x, three_below_2_to_the_32)), ElementsAre(0, 6));
}

TEST(EdgeValues, AnEmptyListOfOtherDimensionsNamesNone) {
  Tensor v = tensor({3.0F, -4.0F});
  EXPECT_THAT(values_of(norm_except_dim(v, 2, 0)), ElementsAre(3, 4));
  EXPECT_THAT(values_of(norm_except_dim(v, 2, -1)), ElementsAre(5));
  Tensor x = v.clone().requires_grad_(), g = tensor({1.0F, 2.0F}).requires_grad_();
  std::get<0>(_weight_norm_interface(x, g, 0)).sum().backward();
  EXPECT_THAT(values_of(x.grad()), ElementsAre(0, 0));
  EXPECT_THAT(values_of(g.grad()), ElementsAre(1, -1));
}

TEST(EdgeValues, SingularVectorsThatNobodyComputesAreZero) {
  auto [u, s, v] = svd(ones({4, 3, 2}), true, false);
  EXPECT_EQ(u.sizes(), SymIntList({4, 3, 3}));
  EXPECT_EQ(v.sizes(), SymIntList({4, 2, 2}));
  EXPECT_EQ(s.sizes(), SymIntList({4, 2}));
  EXPECT_THAT(values_of(u.abs().sum() + v.abs().sum()), ElementsAre(0));
}

}  // namespace
}  // namespace tenon
