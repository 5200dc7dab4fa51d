// Rows that no recording covers: windows, complex magnitudes, solutions that check themselves.
#include <tenon/tenon.h>

#include <gtest/gtest.h>

#include <cmath>

namespace tenon {
namespace {

std::vector<double> values_of(const Tensor& t) { return to(t, Dtype::f64).to_vector<double>(); }

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

// As PyTorch has it: where both numbers are equal the result depends on neither.
TEST(SpecialRows, TheNeighbourOfANumberThatIsReachedHasNoGradient) {
  Tensor x = tensor({1.0, 2.0, 5.0}).requires_grad_(), y = tensor({3.0, 1.0, 5.0}).requires_grad_();
  nextafter(x, y).sum().backward();
  EXPECT_EQ(x.grad().to_vector<double>(), (std::vector<double>{1, 1, 0}));
  EXPECT_EQ(y.grad().to_vector<double>(), (std::vector<double>{0, 0, 0}));
}

}  // namespace
}  // namespace tenon
