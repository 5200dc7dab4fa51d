// In-place forms give what their functional rows give, in the memory of a view; forms whose result
// does not fit self refuse it. A few functional forms with numbers in place of tensors.
#include "ops/op_table.h"
#include "unit/message_of.h"
#include "unit/ops/values_of.h"

#include <tenon/tenon.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

namespace tenon {
namespace {

using ::testing::HasSubstr;

std::vector<double> numbers_in(const Tensor& t) { return values_of(t.contiguous()); }

// Of ops that have no function of their own.
void written(const char* op, const Tensor& self, Value other) {
  Value args[] = {Value::of(self), other}, results[1];
  dispatch(*find_op(op), args, 2, results, 1);
  EXPECT_TRUE(take<Tensor>(results[0]).is_same(self));
}

/// One form and what it stores.
struct Form {
  std::function<void(const Tensor&, const Tensor&)> in_place;
  std::function<Tensor(const Tensor&, const Tensor&)> functional;
};

// `self` is every other column of a larger tensor.
void expect_same(const Form& form, const Tensor& a, const Tensor& b) {
  Tensor base = stack({a, a}, -1);
  form.in_place(base.select(-1, 1), b);
  EXPECT_EQ(numbers_in(base.select(-1, 1)), numbers_in(form.functional(a, b).to(a.dtype())));
  EXPECT_EQ(numbers_in(base.select(-1, 0)), numbers_in(a));
}

TEST(InPlaceForms, OfFloatingOps) {
  using T = const Tensor&;
  Tensor a = rand({3, 4}).add(0.5), b = rand({3, 4}).add(0.5);
  const Form forms[] = {
      {[](T x, T y) { igamma_(x, y); }, [](T x, T y) { return igamma(x, y); }},
      {[](T x, T y) { igammac_(x, y); }, [](T x, T y) { return igammac(x, y); }},
      {[](T x, T y) { nextafter_(x, y); }, [](T x, T y) { return nextafter(x, y); }},
      {[](T x, T y) { floor_divide_(x, y); }, [](T x, T y) { return floor_divide(x, y); }},
      {[](T x, T y) { ldexp_(x, y); }, [](T x, T y) { return ldexp(x, y); }},
      {[](T x, T) { polygamma_(x, 2); }, [](T x, T) { return polygamma(2, x); }},
      {[](T x, T) { mvlgamma_(x, 1); }, [](T x, T) { return mvlgamma(x, 1); }},
      {[](T x, T) { round_(x, 1); }, [](T x, T) { return round(x, 1); }},
      {[](T x, T) { nan_to_num_(x.div_(0), 1.5, 2.5); },
       [](T x, T) { return nan_to_num(x.div(0), 1.5, 2.5); }},
      {[](T x, T) { rrelu_(x.neg_()); }, [](T x, T) { return rrelu(x.neg()); }},
  };
  for (const Form& form : forms) expect_same(form, a, b);
}

TEST(InPlaceForms, OfIntegerOps) {
  using T = const Tensor&;
  Tensor a = arange(12).reshape({3, 4}).add(1), b = arange(4).add(1);
  const Form forms[] = {
      {[](T x, T y) { gcd_(x, y); }, [](T x, T y) { return gcd(x, y); }},
      {[](T x, T y) { lcm_(x, y); }, [](T x, T y) { return lcm(x, y); }},
      {[](T x, T y) { written("aten.__iand__.Tensor", x, Value::of(y)); },
       [](T x, T y) { return bitwise_and(x, y); }},
      {[](T x, T y) { written("aten.__ior__.Tensor", x, Value::of(y)); },
       [](T x, T y) { return bitwise_or(x, y); }},
      {[](T x, T y) { written("aten.__ixor__.Tensor", x, Value::of(y)); },
       [](T x, T y) { return bitwise_xor(x, y); }},
      {[](T x, T y) { written("aten.__ilshift__.Tensor", x, Value::of(y)); },
       [](T x, T y) { return bitwise_left_shift(x, y); }},
      {[](T x, T y) { written("aten.__irshift__.Tensor", x, Value::of(y)); },
       [](T x, T y) { return bitwise_right_shift(x, y); }},
      {[](T x, T) { written("aten.__iand__.Scalar", x, Value::of(Number(6))); },
       [](T x, T) { return bitwise_and(x, 6); }},
      {[](T x, T) { written("aten.__ior__.Scalar", x, Value::of(Number(6))); },
       [](T x, T) { return bitwise_or(x, 6); }},
      {[](T x, T) { written("aten.__ixor__.Scalar", x, Value::of(Number(6))); },
       [](T x, T) { return bitwise_xor(x, 6); }},
      {[](T x, T) { written("aten.__ilshift__.Scalar", x, Value::of(Number(2))); },
       [](T x, T) { return bitwise_left_shift(x, 2); }},
      {[](T x, T) { written("aten.__irshift__.Scalar", x, Value::of(Number(2))); },
       [](T x, T) { return bitwise_right_shift(x, 2); }},
  };
  for (const Form& form : forms) expect_same(form, a, b);
}

TEST(InPlaceForms, RefuseResultsThatSelfCannotHold) {
  Tensor whole = arange(4), half = rand({4});
  EXPECT_THAT(message_of([&] { polygamma_(whole, 1); }), HasSubstr("cannot be stored"));
  EXPECT_THAT(message_of([&] { float_power_(half, 2); }), HasSubstr("results have dtype f64"));
  EXPECT_THAT(message_of([&] { floor_divide_(whole, half); }), HasSubstr("dtype"));
  Tensor wide = half.to(Dtype::f64);
  EXPECT_EQ(numbers_in(float_power_(wide.clone(), half)), numbers_in(float_power(wide, half)));
}

// Their bytes would be read as numbers of the type of self.
TEST(InPlaceForms, IndexPutRefusesValuesOfAnotherType) {
  Tensor self = ones({2, 3});
  for (Dtype dtype : {Dtype::f64, Dtype::f16, Dtype::i32})
    for (bool accumulate : {false, true})
      EXPECT_THAT(message_of([&] {
                    self.index_put_({arange(2)}, full({2, 3}, 3.0, dtype), accumulate);
                  }),
                  HasSubstr("index_put_: values must have dtype f32"));
  EXPECT_EQ(values_of(self), std::vector<double>(6, 1.0));
}

TEST(InPlaceForms, HaveTheGradientsOfTheirFunctionalForms) {
  Tensor x = rand({4}).add(0.5).requires_grad_();
  polygamma_(x.mul(1), 1).sum().backward();
  EXPECT_EQ(numbers_in(x.grad()), numbers_in(polygamma(2, x.detach())));
}

TEST(NumbersInPlaceOfTensors, AreLookedFor) {
  Tensor known = tensor({int64_t{1}, int64_t{3}, int64_t{3}});
  EXPECT_EQ(numbers_in(isin(known, 3)), (std::vector<double>{0, 1, 1}));
  EXPECT_EQ(numbers_in(isin(known, 3, false, true)), (std::vector<double>{1, 0, 0}));
  EXPECT_EQ(numbers_in(isin(Number(2), known)), std::vector<double>{0});
  EXPECT_EQ(numbers_in(isin(Number(1), known)), std::vector<double>{1});
  EXPECT_EQ(numbers_in(isin(Number(1), known, false, true)), std::vector<double>{0});
  EXPECT_EQ(numbers_in(bucketize(Number(3), known)), std::vector<double>{1});
  EXPECT_EQ(numbers_in(bucketize(Number(3), known, false, true)), std::vector<double>{3});
}

TEST(PadSequence, MakesAllAsLongAsTheLongest) {
  std::vector<Tensor> parts{tensor({1.0f, 2.0f, 3.0f}), tensor({4.0f})};
  EXPECT_EQ(numbers_in(pad_sequence(parts, true, 9)), (std::vector<double>{1, 2, 3, 4, 9, 9}));
  EXPECT_EQ(numbers_in(pad_sequence(parts, false, 9)), (std::vector<double>{1, 4, 2, 9, 3, 9}));
  EXPECT_EQ(numbers_in(pad_sequence(parts, true, 0, "left")),
            (std::vector<double>{1, 2, 3, 0, 0, 4}));
}

TEST(ConvTbc, IsAConvolutionWithTimeFirst) {
  Tensor x = randn({5, 2, 3}), w = randn({2, 3, 4}), b = randn({4});
  Tensor expected = conv1d(x.permute({1, 2, 0}), w.permute({2, 1, 0}), b, {1}, {1});
  EXPECT_EQ(numbers_in(conv_tbc(x, w, b, 1)), numbers_in(expected.permute({2, 0, 1})));
}

TEST(IntMm, AddsUpBeyondTheRangeOfItsInputs) {
  Tensor a = full({2, 40}, 100, Dtype::i8), b = full({40, 2}, 100, Dtype::i8);
  EXPECT_EQ(numbers_in(_int_mm(a, b)), std::vector<double>(4, 400000));
  EXPECT_THAT(message_of([&] { _int_mm(a.to(Dtype::i32), b); }), HasSubstr("matrices of i8"));
}

TEST(IntegerConvolution, WrapsAround) {
  Tensor big = full({1, 1, 3}, int64_t{1} << 62, Dtype::i64), two = full({1, 1, 2}, 2, Dtype::i64);
  EXPECT_EQ(conv1d(big, two).to_vector<int64_t>(), std::vector<int64_t>(2, 0));
  Tensor bytes = full({1, 1, 3}, 200, Dtype::u8), ones_of = full({1, 1, 2}, 1, Dtype::u8);
  EXPECT_EQ(conv1d(bytes, ones_of).to_vector<uint8_t>(), std::vector<uint8_t>(2, 144));
}

// As floating numbers, all sums are exact here.
TEST(IntegerConvolution, IsThatOfFloatingNumbers) {
  Tensor x = randint(-9, 9, {2, 4, 5, 6}), bias = randint(-9, 9, {6});
  Tensor w = randint(-9, 9, {6, 2, 3, 2}), back = randint(-9, 9, {4, 3, 3, 2});
  auto wide = [](const Tensor& t) { return t.to(Dtype::f64); };
  EXPECT_EQ(numbers_in(conv2d(x, w, bias, {2, 1}, {1, 2}, {1, 2}, 2)),
            numbers_in(conv2d(wide(x), wide(w), wide(bias), {2, 1}, {1, 2}, {1, 2}, 2)));
  EXPECT_EQ(
      numbers_in(conv_transpose2d(x, back, bias, {2, 1}, {1, 0}, {1, 0}, 2)),
      numbers_in(conv_transpose2d(wide(x), wide(back), wide(bias), {2, 1}, {1, 0}, {1, 0}, 2)));
}

TEST(MaskedIndex, TakesPositionsOutsideFromTheEdge) {
  Tensor x = tensor({1.0f, 2.0f, 3.0f}), at = tensor({int64_t{7}, int64_t{-9}, int64_t{1}});
  Tensor mask = tensor({true, true, false});
  std::vector<Tensor> indices{at};
  EXPECT_EQ(numbers_in(_unsafe_masked_index(x, mask, indices, 5)), (std::vector<double>{3, 1, 5}));
  EXPECT_EQ(numbers_in(_unsafe_masked_index_put_accumulate(x, mask, indices, x)),
            (std::vector<double>{3, 2, 4}));
}

TEST(CosineSimilarity, PromotesItsArguments) {
  Tensor whole = tensor({int64_t{3}, int64_t{4}}), real = tensor({3.0f, 4.0f});
  EXPECT_NEAR(numbers_in(cosine_similarity(whole, real, 0))[0], 1, 1e-6);
}

}  // namespace
}  // namespace tenon
