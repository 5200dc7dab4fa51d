// Rows that no recording covers: windows, complex magnitudes, solutions that check themselves.
#include "unit/ops/values_of.h"

#include <tenon/tenon.h>

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

namespace tenon {
namespace {

TEST(SpecialRows, ThePeriodicHannWindowIsTheLongerOneWithoutItsEnd) {
  std::vector<double> periodic = values_of(hann_window(4, Dtype::f64));
  std::vector<double> whole = values_of(hann_window(5, false, Dtype::f64));
  for (size_t i = 0; i < periodic.size(); ++i) EXPECT_DOUBLE_EQ(periodic[i], whole[i]);
  EXPECT_DOUBLE_EQ(whole[2], 1.0);
}

TEST(SpecialRows, TheMagnitudeOfAComplexNumberIsReal) {
  Tensor z = complex(full({2}, 3.0), full({2}, -4.0)), size = abs(z);
  EXPECT_EQ(size.dtype(), Dtype::f32);
  EXPECT_EQ(values_of(size), (std::vector<double>{5.0, 5.0}));
}

TEST(SpecialRows, AMatrixTimesItsInverseIsTheUnitMatrix) {
  Tensor a = vander(arange(1, 5, Dtype::f64));
  std::vector<double> product = values_of(matmul(a, linalg_inv(a)));
  for (size_t i = 0; i < product.size(); ++i) EXPECT_NEAR(product[i], i % 5 == 0 ? 1.0 : 0.0, 1e-9);
}

TEST(SpecialRows, SingularVectorsMultiplyBackToTheMatrix) {
  Tensor a = vander(arange(1, 6, Dtype::f64), 3);
  auto [u, s, vh] = linalg_svd(a, false);
  std::vector<double> expected = values_of(a), found = values_of(matmul(mul(u, s), vh));
  for (size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], expected[i], 1e-10);
}

TEST(SpecialRows, EigenvectorsOfASymmetricMatrixDiagonaliseIt) {
  Tensor half = vander(arange(1, 5, Dtype::f64)), a = matmul(half, transpose(half, 0, 1));
  auto [values, vectors] = linalg_eigh(a);
  std::vector<double> left = values_of(matmul(a, vectors)), right = values_of(mul(vectors, values));
  for (size_t i = 0; i < left.size(); ++i) EXPECT_NEAR(left[i], right[i], 1e-9);
}

// The power of two alone may be out of range where the product is not.
TEST(SpecialRows, AWholeExponentKeepsTheDtypeAndTheRange) {
  struct Sample {
    double number;
    int exponent;
  };
  const Sample samples[] = {{3e38, -200}, {1e-40, 200},   {1, 200},      {1, -200},
                            {5, 3},       {1e308, -2000}, {-0.75, 2000}, {0, 2000000000}};
  for (Dtype dtype : {Dtype::bf16, Dtype::f16, Dtype::f32, Dtype::f64})
    for (const Sample& s : samples) {
      Tensor x = full({1}, s.number, Dtype::f64).to(dtype);
      Tensor found = ldexp(x, full({1}, s.exponent, Dtype::i32));
      EXPECT_EQ(found.dtype(), dtype);
      double exact = std::ldexp(values_of(x)[0], s.exponent);
      EXPECT_EQ(values_of(found), values_of(full({1}, exact, Dtype::f64).to(dtype)))
          << s.number << " " << s.exponent;
    }
  EXPECT_EQ(ldexp(ones({1}), ones({1}, Dtype::f64)).dtype(), Dtype::f64);
}

TEST(SpecialRows, MovedAxesAreAView) {
  Tensor x = arange(24, Dtype::f32).reshape({2, 3, 4}), moved = moveaxis(x, {2}, {0});
  EXPECT_EQ(values_of(moved), values_of(x.permute({2, 0, 1})));
  moved.fill_(1);
  EXPECT_EQ(values_of(x), values_of(ones({2, 3, 4})));
}

TEST(SpecialRows, TheGradientOfASelectionAddsUpWhatIsSelectedTwice) {
  Tensor index = ones({2}).to(Dtype::i64);
  EXPECT_EQ(values_of(index_select_backward(ones({2, 2}), {3, 2}, 0, index)),
            (std::vector<double>{0, 0, 2, 2, 0, 0}));
}

TEST(SpecialRows, AnInstanceNormThatIsNotTrainedLeavesItsStatisticsAlone) {
  Tensor mean = full({2}, 0.1), var = full({2}, 0.3);
  instance_norm(ones({3, 2, 4}), {}, {}, mean, var, false, 0.1, 1e-5, false);
  EXPECT_EQ(values_of(mean), values_of(full({2}, 0.1)));
}

TEST(SpecialRows, ANormOfNoInstancesHasGradients) {
  Tensor weight = ones({2}).requires_grad_(), x = ones({0, 2, 4}).requires_grad_();
  instance_norm(x, weight, {}, {}, {}, true, 0.1, 1e-5, false).sum().backward();
  EXPECT_EQ(values_of(weight.grad()), (std::vector<double>{0, 0}));
  EXPECT_EQ(x.grad().sizes(), x.sizes());
}

// As PyTorch has it: where both numbers are equal the result depends on neither.
TEST(SpecialRows, TheNeighbourOfANumberThatIsReachedHasNoGradient) {
  Tensor x = tensor({1.0, 2.0, 5.0}).requires_grad_(), y = tensor({3.0, 1.0, 5.0}).requires_grad_();
  nextafter(x, y).sum().backward();
  EXPECT_EQ(x.grad().to_vector<double>(), (std::vector<double>{1, 1, 0}));
  EXPECT_EQ(y.grad().to_vector<double>(), (std::vector<double>{0, 0, 0}));
}

template <class T>
void expect_neighbours_of_the_library(Dtype dtype) {
  using Limits = std::numeric_limits<T>;
  std::vector<T> numbers;
  for (T x : {T(0), Limits::denorm_min(), Limits::min(), T(1), T(1.5), T(2), Limits::max(),
              Limits::infinity()})
    numbers.insert(numbers.end(), {x, -x});
  for (T from : numbers)
    for (T towards : numbers) {
      T expected = std::nextafter(from, towards);
      T found = nextafter(full({}, double(from), dtype), full({}, double(towards), dtype))
                    .data_ptr<T>()[0];
      EXPECT_EQ(std::memcmp(&found, &expected, sizeof(T)), 0) << from << " " << towards;
    }
  Tensor nan = full({}, NAN, dtype), one = ones({}, dtype);
  EXPECT_TRUE(std::isnan(nextafter(nan, one).template data_ptr<T>()[0]));
  EXPECT_TRUE(std::isnan(nextafter(one, nan).template data_ptr<T>()[0]));
}

TEST(SpecialRows, NeighboursOfNumbersAreThoseOfTheCLibrary) {
  expect_neighbours_of_the_library<float>(Dtype::f32);
  expect_neighbours_of_the_library<double>(Dtype::f64);
}

// Middle, tails and far tails have polynomials of their own.
TEST(SpecialRows, AQuantileIsWhereTheShareIs) {
  std::vector<double> x;
  for (double at = -35; at < 7; at += 0.03125) x.push_back(at);
  Tensor found = special_ndtri(special_ndtr(tensor(x)));
  for (size_t i = 0; i < x.size(); ++i)
    EXPECT_NEAR(found.data_ptr<double>()[i], x[i], x[i] < 3 ? 1e-13 * (2 + std::abs(x[i])) : 1e-4);
}

// The time that these take does not depend on the value. Beside half of the normal distribution a
// third of its density remains.
TEST(SpecialRows, GammaSharesOfLargeShapesAreNearlyNormal) {
  for (double a : {2e4, 1e9, 1e20}) {
    Tensor shape = full({1}, a, Dtype::f64);
    double rest = 1 / (3 * std::sqrt(2 * 3.14159265358979323846 * a));
    EXPECT_NEAR(values_of(igamma(shape, shape))[0], 0.5 + rest, 1e-9) << a;
    EXPECT_NEAR(values_of(igammac(shape, shape))[0], 0.5 - rest, 1e-9) << a;
    EXPECT_EQ(values_of(igamma(shape, shape.mul(2)))[0], 1) << a;
    EXPECT_EQ(values_of(igammac(shape, shape.mul(0.5)))[0], 1) << a;
  }
}

TEST(SpecialRows, GammaSharesGoOnWhereTheMethodChanges) {
  Tensor x = tensor({9990.0, 10100.0}), below = full({2}, 10000.0, Dtype::f64);
  Tensor above = full({2}, std::nextafter(10000.0, 20000.0), Dtype::f64);
  std::vector<double> a = values_of(igamma(below, x)), b = values_of(igamma(above, x));
  for (size_t i = 0; i < 2; ++i) EXPECT_NEAR(a[i], b[i], 1e-11);
}

TEST(SpecialRows, ZetasOfFarNegativeNumbersAreThoseOfTheirFractions) {
  Tensor two = full({1}, 2.0, Dtype::f64);
  // Squares know no sign: all terms around x + 1/2 are twice those on one side.
  double half = 3.14159265358979323846 * 3.14159265358979323846;
  EXPECT_NEAR(values_of(special_zeta(two, full({1}, -1e12 + 0.5, Dtype::f64)))[0], half, 1e-11);
  EXPECT_NEAR(values_of(special_zeta(two, full({1}, -1.5, Dtype::f64)))[0], half / 2 + 4 + 4.0 / 9,
              1e-13);
}

TEST(SpecialRows, AtInfinity) {
  double inf = std::numeric_limits<double>::infinity();
  Tensor far = full({3}, inf, Dtype::f64);
  EXPECT_EQ(values_of(special_zeta(far, tensor({0.5, 1.0, 2.0}))),
            (std::vector<double>{inf, 1, 0}));
  EXPECT_EQ(values_of(special_zeta(tensor({2.0, 3.0, 4.0}), far)), std::vector<double>(3, 0));
  EXPECT_EQ(values_of(polygamma(1, far)), std::vector<double>(3, 0));
}

TEST(SpecialRows, TheStepOfWhatIsNoNumberIsZero) {
  Tensor x = tensor({std::nan(""), -1.0, 0.0, 2.0}), at_zero = full({4}, 0.25, Dtype::f64);
  EXPECT_EQ(values_of(heaviside(x, at_zero)), (std::vector<double>{0, 0, 0.25, 1}));
}

TEST(SpecialRows, DiagonalsAreFilledAlsoThoseThatBeginAnew) {
  Tensor high = zeros({7, 3});
  high.fill_diagonal_(1, true);
  EXPECT_EQ(values_of(high.sum({1})), (std::vector<double>{1, 1, 1, 0, 1, 1, 1}));
  EXPECT_EQ(values_of(zeros({7, 3}).fill_diagonal_(2).sum({0})), (std::vector<double>{2, 2, 2}));
  Tensor cube = zeros({2, 2, 2}).fill_diagonal_(3);
  EXPECT_EQ(values_of(cube.flatten()), (std::vector<double>{3, 0, 0, 0, 0, 0, 0, 3}));
  EXPECT_THROW(zeros({3}).fill_diagonal_(1), UserError);
  EXPECT_THROW(zeros({2, 3, 2}).fill_diagonal_(1), UserError);
}

TEST(SpecialRows, AFilledDiagonalHasNoGradientInCompiledCodeEither) {
  for (const char* backend : {"", "eager", "aot_eager"}) {
    auto body = [](const Tensor& x) { return (x * 2.0).fill_diagonal_(5).square().sum(); };
    Tensor x = ones({2, 2}).requires_grad_();
    Tensor loss = *backend ? compile(body, {.backend = backend})(x) : body(x);
    loss.backward();
    EXPECT_EQ(loss.item<double>(), 58);
    EXPECT_EQ(values_of(x.grad()), (std::vector<double>{0, 8, 8, 0}));
  }
}

TEST(SpecialRows, AnInfiniteSideIsInfinitelyLong) {
  Tensor a = tensor({INFINITY, -INFINITY, float(NAN), 3.4e38f}),
         b = tensor({float(NAN), 2.f, 1.f, 1.f});
  std::vector<double> length = values_of(hypot(a, b));
  EXPECT_EQ(length[0], INFINITY);
  EXPECT_EQ(length[1], INFINITY);
  EXPECT_TRUE(std::isnan(length[2]));
  EXPECT_EQ(length[3], double(3.4e38f));
}

TEST(SpecialRows, APolarDecompositionMultipliesBack) {
  Tensor a = vander(arange(1, 6, Dtype::f64), 3);
  auto [u, h] = linalg_polar(a);
  std::vector<double> expected = values_of(a), found = values_of(matmul(u, h));
  for (size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], expected[i], 1e-9);
  std::vector<double> unit = values_of(matmul(u.mT(), u)), size = values_of(h - h.mT());
  for (size_t i = 0; i < unit.size(); ++i) EXPECT_NEAR(unit[i], i % 4 == 0 ? 1 : 0, 1e-12);
  for (double d : size) EXPECT_NEAR(d, 0, 1e-9);
  EXPECT_THROW(linalg_polar(a.mT()), UserError);
}

TEST(SpecialRows, TheRootOfAMatrixTimesItselfIsTheMatrix) {
  Tensor half = vander(arange(1, 4, Dtype::f64)), a = matmul(half, half.mT());
  Tensor root = linalg_matrix_sqrth(a);
  std::vector<double> expected = values_of(a), found = values_of(matmul(root, root));
  for (size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], expected[i], 1e-8);
}

TEST(SpecialRows, AFactorOfZeroGivesGradientsOfZero) {
  Tensor self = ones({2, 3}).requires_grad_();
  addbmm(self, ones({4, 2, 5}), ones({4, 5, 3}), 0).sum().backward();
  EXPECT_EQ(values_of(self.grad().flatten()), std::vector<double>(6, 0.0));
  self.set_grad({});
  addr(self * NAN, ones({2}), ones({3}), 0).sum().backward();
  EXPECT_TRUE(self.grad().defined());
}

}  // namespace
}  // namespace tenon
