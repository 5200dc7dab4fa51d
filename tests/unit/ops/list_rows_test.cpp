// Ops over lists of tensors: one op on each of them. What the ops themselves give is recorded
// (tests/data/models/lists.pt2); here is what lists add to it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "unit/message_of.h"
#include "unit/ops/values_of.h"

#include <tenon/autograd.h>
#include <tenon/compile.h>
#include <tenon/tenon.h>

namespace tenon {
namespace {

using ::testing::HasSubstr;

std::vector<Tensor> two() { return {tensor({1.0, 2.0}), tensor({3.0})}; }

TEST(ListRows, GiveOneResultForEachTensor) {
  std::vector<Tensor> x = two(), sums = _foreach_add(x, x, 2);
  EXPECT_EQ(values_of(sums[0]), (std::vector<double>{3, 6}));
  EXPECT_EQ(values_of(sums[1]), (std::vector<double>{9}));
}

TEST(ListRows, KeepIntegersWhereNumbersAreWhole) {
  std::vector<Tensor> x{tensor({1, 2}).to(Dtype::i64)};
  EXPECT_EQ(_foreach_mul(x, DoubleList({2.0}))[0].dtype(), Dtype::i64);
  EXPECT_EQ(_foreach_mul(x, DoubleList({2.5}))[0].dtype(), Dtype::f32);
}

TEST(ListRows, AreWrittenInPlace) {
  std::vector<Tensor> x = two();
  _foreach_mul_(x, Number(3));
  _foreach_addcdiv_(x, two(), two(), Number(0.5));
  EXPECT_EQ(values_of(x[0]), (std::vector<double>{3.5, 6.5}));
  EXPECT_EQ(values_of(x[1]), (std::vector<double>{9.5}));
}

TEST(ListRows, HaveGradients) {
  std::vector<Tensor> x = two();
  for (Tensor& t : x) t.requires_grad_();
  std::vector<Tensor> squares = _foreach_mul(x, x);
  (squares[0].sum() + squares[1].sum()).backward();
  EXPECT_EQ(values_of(x[0].grad()), (std::vector<double>{2, 4}));
  EXPECT_EQ(values_of(x[1].grad()), (std::vector<double>{6}));
}

TEST(ListRows, AreCapturedAsTheirPartsWhereTheyWrite) {
  auto step = [](const Tensor& a, const Tensor& b) {
    std::vector<Tensor> x{a.clone(), b.clone()};
    _foreach_lerp_(x, two(), Number(0.5));
    return _foreach_sqrt(x);
  };
  auto compiled = compile(step, {.backend = "eager", .fullgraph = true});
  std::vector<Tensor> expected = step(two()[0], two()[1]);
  for (int call = 0; call < 2; ++call) {
    std::vector<Tensor> found = compiled(two()[0], two()[1]);
    EXPECT_EQ(values_of(found[0]), values_of(expected[0]));
    EXPECT_EQ(values_of(found[1]), values_of(expected[1]));
  }
  EXPECT_EQ(compiled.stats().compiles, 1);
}

TEST(ListRows, TakePartsOfATensor) {
  Tensor x = tensor({1.0, 2.0, 3.0});
  std::vector<Tensor> parts{zeros({2}), empty({0})};
  split_with_sizes_copy_out(parts, x, {2, 1}, 0);
  EXPECT_EQ(values_of(parts[0]), (std::vector<double>{1, 2}));
  EXPECT_EQ(values_of(parts[1]), (std::vector<double>{3}));
  split_copy_out(parts, x + 3, 2, 0);
  EXPECT_EQ(values_of(parts[0]), (std::vector<double>{4, 5}));
  EXPECT_EQ(values_of(parts[1]), (std::vector<double>{6}));
  std::vector<Tensor> rows{empty({0}), zeros({2})};
  unbind_copy_out(rows, tensor({1.0, 2.0, 3.0, 4.0}).reshape({2, 2}), 0);
  EXPECT_EQ(values_of(rows[0]), (std::vector<double>{1, 2}));
  EXPECT_EQ(values_of(rows[1]), (std::vector<double>{3, 4}));
}

TEST(ListRows, RefuseListsOfOtherLengths) {
  std::vector<Tensor> x = two(), one{x[0]};
  EXPECT_THAT(message_of([&] { _foreach_add(x, one); }), HasSubstr("lists have 2 and 1 entries"));
  EXPECT_THAT(message_of([&] { _foreach_sqrt(std::vector<Tensor>()); }),
              HasSubstr("expected at least one tensor"));
}

}  // namespace
}  // namespace tenon
