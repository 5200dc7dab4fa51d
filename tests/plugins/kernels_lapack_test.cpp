// kernels_lapack: factors that multiply back, batches, what is singular, not finite or empty.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backend/catalog.h"
#include "ops/op_table.h"
#include "plugins/own_process.h"
#include "unit/message_of.h"

#include <tenon/tenon.h>

#include <cmath>
#include <fstream>
#include <functional>
#include <limits>
#include <sstream>
#include <thread>

namespace tenon {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<double> values_of(const Tensor& t) { return to(t, Dtype::f64).to_vector<double>(); }

void expect_near(const Tensor& found, const Tensor& expected, double tolerance) {
  ASSERT_EQ(found.numel(), expected.numel());
  std::vector<double> a = values_of(found), b = values_of(expected);
  for (size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], tolerance) << "element " << i;
}

double tolerance_of(Dtype dtype) { return dtype == Dtype::f64 ? 1e-10 : 2e-3; }

std::vector<int64_t> strides_of(const Tensor& t) {
  std::vector<int64_t> out;
  for (int64_t d = 0; d < t.dim(); ++d) out.push_back(t.stride(d));
  return out;
}

std::vector<int64_t> sizes_of(const Tensor& t) {
  std::vector<int64_t> out;
  for (int64_t d = 0; d < t.dim(); ++d) out.push_back(t.size(d));
  return out;
}

Tensor nan_matrix() { return full({3, 3}, std::nan(""), Dtype::f64); }

class KernelsLapack : public testing::TestWithParam<Dtype> {
 protected:
  Dtype dtype() const { return GetParam(); }
  double tolerance() const { return tolerance_of(GetParam()); }
  Tensor numbers(std::vector<int64_t> sizes) const { return randn(dims(sizes), dtype()); }
  Tensor positive(std::vector<int64_t> sizes) const {
    Tensor a = numbers(sizes);
    return matmul(a, a.mT()) + eye(a.size(-1), dtype());
  }

 private:
  static std::vector<SymInt> dims(const std::vector<int64_t>& sizes) {
    return {sizes.begin(), sizes.end()};
  }
};
INSTANTIATE_TEST_SUITE_P(Types, KernelsLapack, testing::Values(Dtype::f32, Dtype::f64),
                         [](const auto& info) { return info.param == Dtype::f32 ? "f32" : "f64"; });

TEST_P(KernelsLapack, EigenvectorsWithoutSymmetryAreKeptButForTheirEigenvalue) {
  Tensor a = numbers({2, 6, 6});
  auto [values, vectors] = linalg_eig(a);
  Tensor product = matmul(complex(a, zeros_like(a)), vectors);
  Tensor error = product - mul(vectors, unsqueeze(values, -2));
  EXPECT_LE(double(abs(error).max().item<double>()), tolerance());
  expect_near(sum(real(values), -1), sum(diagonal(a, 0, -2, -1), -1), tolerance());
}

TEST_P(KernelsLapack, ThePseudoinverseOfASymmetricMatrixLooksAtOneHalf) {
  Tensor a = positive({4, 4});
  Tensor lower = tril(a);
  expect_near(linalg_pinv(lower, 1e-6, true), linalg_pinv(a, 1e-6), tolerance() * 10);
  Tensor zero = linalg_pinv(a, 1.0);  // at the largest singular value: nothing is left
  EXPECT_EQ(double(zero.abs().max().item<double>()), 0);
}

TEST_P(KernelsLapack, ASolutionComesWithTheFactorsOfTheMatrixItself) {
  Tensor a = numbers({4, 4}), b = numbers({4, 2});
  auto [x, lu, pivots, info] = _linalg_solve_ex(a, b);
  auto [expected, expected_pivots] = linalg_lu_factor(a);
  expect_near(lu, expected, tolerance());
  expect_near(matmul(a, x), b, tolerance() * 10);
}

TEST_P(KernelsLapack, CholeskyFactorsMultiplyBack) {
  Tensor a = positive({3, 5, 5});
  Tensor lower = linalg_cholesky(a), upper = linalg_cholesky(a, true);
  expect_near(matmul(lower, lower.mT()), a, tolerance());
  expect_near(matmul(upper.mT(), upper), a, tolerance());
  expect_near(lower.triu(1), zeros_like(a), 0);
  Tensor b = numbers({5, 2});
  expect_near(matmul(a, cholesky_solve(b, lower)), b.expand({3, 5, 2}), tolerance());
  expect_near(cholesky_solve(b, upper, true), cholesky_solve(b, lower), tolerance());
  expect_near(cholesky_solve(b, lower.contiguous()), cholesky_solve(b, lower), tolerance());
}

TEST_P(KernelsLapack, TriangularSystemsAreSolvedFromBothSides) {
  Tensor a = numbers({4, 4}) + eye(SymInt(4), dtype()) * 8, b = numbers({2, 4, 3});
  for (bool upper : {false, true})
    for (bool unit : {false, true})
      for (const Tensor& matrix : {a, a.mT().contiguous().mT()}) {
        Tensor t = upper ? matrix.triu(unit) : matrix.tril(unit ? -1 : 0);
        if (unit) t = t + eye(SymInt(4), dtype());
        Tensor x = linalg_solve_triangular(matrix, b, upper, true, unit);
        expect_near(matmul(t, x), b, tolerance());
        Tensor y = linalg_solve_triangular(matrix, b.mT(), upper, false, unit);
        expect_near(matmul(y, t), b.mT(), tolerance());
      }
}

TEST_P(KernelsLapack, LuFactorsMultiplyBackWhateverTheShape) {
  for (auto [rows, columns] : {std::pair{4, 4}, {6, 3}, {3, 6}}) {
    Tensor a = numbers({2, rows, columns});
    auto [p, l, u] = linalg_lu(a);
    expect_near(matmul(p, matmul(l, u)), a, tolerance());
  }
}

TEST_P(KernelsLapack, SystemsAreSolvedForMatricesAndVectorsFromBothSides) {
  Tensor a = numbers({3, 4, 4}) + eye(SymInt(4), dtype()) * 4, b = numbers({2, 3, 4, 2}),
         v = numbers({3, 4});
  for (const Tensor& matrix : {a, a.mT().contiguous().mT()}) {
    expect_near(matmul(matrix, linalg_solve(matrix, b)), b, tolerance());
    expect_near(matmul(linalg_solve(matrix, b.mT(), false), matrix), b.mT(), tolerance());
    expect_near(matmul(matrix, linalg_solve(matrix, v).unsqueeze(-1)).squeeze(-1), v, tolerance());
    auto [lu, pivots] = linalg_lu_factor(matrix);
    expect_near(matmul(matrix.mT(), linalg_lu_solve(lu, pivots, b, true, true)), b, tolerance());
    expect_near(matmul(linalg_lu_solve(lu, pivots, b.mT(), false, true), matrix.mT()), b.mT(),
                tolerance());
    expect_near(matmul(linalg_inv(matrix), matrix), eye(SymInt(4), dtype()).expand({3, 4, 4}),
                tolerance());
  }
}

TEST_P(KernelsLapack, DeterminantsAreThoseOfTheTransposesToo) {
  Tensor a = numbers({5, 4, 4});
  expect_near(linalg_det(a), linalg_det(a.mT()), tolerance());
  auto [sign, size] = linalg_slogdet(a);
  expect_near(mul(sign, exp(size)), linalg_det(a), tolerance());
  EXPECT_THAT(values_of(linalg_det(zeros({2, 3, 3}, dtype()))), ElementsAre(0, 0));
  EXPECT_THAT(values_of(linalg_det(zeros({2, 0, 0}, dtype()))), ElementsAre(1, 1));
}

TEST_P(KernelsLapack, QrMultipliesBackInEachMode) {
  for (auto [rows, columns] : {std::pair{4, 4}, {6, 3}, {3, 6}}) {
    Tensor a = numbers({2, rows, columns});
    for (const char* mode : {"reduced", "complete"}) {
      auto [q, r] = linalg_qr(a, mode);
      expect_near(matmul(q, r), a, tolerance());
      SymInt k = q.size(-1);
      expect_near(matmul(q.mT(), q), eye(k, dtype()).expand({SymInt(2), k, k}), tolerance());
      expect_near(r.tril(-1), zeros_like(r), 0);
    }
    expect_near(std::get<1>(linalg_qr(a, "r")), std::get<1>(linalg_qr(a)), tolerance());
  }
}

TEST_P(KernelsLapack, ReflectionsMakeTheQThatTheyAreAppliedAs) {
  Tensor a = numbers({2, 5, 3}), c = numbers({2, 5, 2});
  auto [packed, tau] = geqrf(a);
  Tensor q = std::get<0>(linalg_qr(a, "complete"));
  expect_near(linalg_householder_product(packed, tau), q.narrow(-1, 0, 3), tolerance());
  expect_near(ormqr(packed, tau, c), matmul(q, c), tolerance());
  expect_near(ormqr(packed, tau, c, true, true), matmul(q.mT(), c), tolerance());
  expect_near(ormqr(packed, tau, c.mT(), false), matmul(c.mT(), q), tolerance());
  expect_near(ormqr(packed.contiguous(), tau, c.mT(), false, true), matmul(c.mT(), q.mT()),
              tolerance());
}

TEST_P(KernelsLapack, EigenvectorsDiagonaliseEitherHalf) {
  Tensor a = positive({2, 5, 5});
  for (const char* half : {"L", "U"}) {
    Tensor given = half[0] == 'L' ? a.tril() : a.triu();
    auto [values, vectors] = linalg_eigh(given, half);
    expect_near(matmul(a, vectors), mul(vectors, values.unsqueeze(-2)), tolerance() * 10);
    expect_near(linalg_eigvalsh(given, half), values, tolerance() * 10);
  }
}

TEST_P(KernelsLapack, SingularVectorsMultiplyBackThinAndFull) {
  for (auto [rows, columns] : {std::pair{4, 4}, {6, 3}, {3, 6}}) {
    Tensor a = numbers({2, rows, columns});
    auto [u, s, vh] = linalg_svd(a, false);
    expect_near(matmul(mul(u, s.unsqueeze(-2)), vh), a, tolerance());
    auto [full_u, same, full_vh] = linalg_svd(a, true);
    expect_near(same, s, tolerance());
    EXPECT_THAT(sizes_of(full_u), ElementsAre(2, rows, rows));
    EXPECT_THAT(sizes_of(full_vh), ElementsAre(2, columns, columns));
    expect_near(matmul(full_u.mT(), full_u), eye(SymInt(rows), dtype()).expand({2, rows, rows}),
                tolerance());
    expect_near(linalg_svdvals(a), s, tolerance());
  }
}

TEST_P(KernelsLapack, LeastSquaresOfAllDriversAgree) {
  for (auto [rows, columns] : {std::pair{6, 3}, {3, 6}, {4, 4}}) {
    Tensor a = numbers({2, rows, columns}) * 0.3 + eye(SymInt(rows), SymInt(columns), dtype()) * 2;
    Tensor b = numbers({2, rows, 2});
    Tensor expected = matmul(linalg_pinv(a, std::optional<double>(), std::nullopt), b);
    for (const char* driver : {"gels", "gelsy", "gelsd", "gelss"}) {
      auto [x, residuals, rank, s] = linalg_lstsq(a, b, std::nullopt, driver);
      expect_near(x, expected, tolerance() * 10);
      bool has_residuals = rows > columns && driver != std::string("gelsy");
      EXPECT_EQ(residuals.numel(), has_residuals ? 4 : 0);
      if (has_residuals) {
        Tensor rest = matmul(a, x) - b;
        expect_near(residuals, sum(rest * rest, {-2}), tolerance() * 10);
      }
    }
  }
}

TEST_P(KernelsLapack, LeastSquaresTellTheRankAndTakeVectors) {
  Tensor a = ones({5, 3}, dtype()), b = arange(5, dtype());
  auto [x, residuals, rank, s] = linalg_lstsq(a, b, std::nullopt, "gelsd");
  EXPECT_THAT(sizes_of(x), ElementsAre(3));
  EXPECT_EQ(residuals.numel(), 0);
  EXPECT_THAT(rank.to_vector<int64_t>(), ElementsAre(1));
  expect_near(s.narrow(0, 0, 1), full({1}, std::sqrt(15.0), Dtype::f64), tolerance());
  expect_near(x, full({3}, 2.0 / 3, Dtype::f64), tolerance());
}

TEST_P(KernelsLapack, RanksAndConditionNumbersAreThoseOfTheSingularValues) {
  Tensor diagonal_one = diag_embed(arange(1, 4, dtype()));
  expect_near(linalg_cond(diagonal_one), full({}, 3), tolerance());
  expect_near(linalg_cond(diagonal_one, 1), full({}, 3), tolerance());
  EXPECT_TRUE(std::isinf(values_of(linalg_cond(ones({2, 2}, dtype()), 1))[0]));
  Tensor a = stack({eye(SymInt(3), dtype()), ones({3, 3}, dtype()), zeros({3, 3}, dtype())});
  for (bool hermitian : {false, true})
    EXPECT_THAT(values_of(linalg_matrix_rank(a, std::optional<double>(), std::nullopt, hermitian)),
                ElementsAre(3, 1, 0));
  EXPECT_THAT(values_of(linalg_matrix_rank(a * 0.5, 0.75)), ElementsAre(0, 1, 0));
}

TEST_P(KernelsLapack, TensorsAreInvertedAndSolvedAsMatrices) {
  Tensor a = numbers({2, 3, 6}) + eye(SymInt(6), dtype()).reshape({2, 3, 6}) * 6;
  Tensor b = numbers({2, 3}), x = linalg_tensorsolve(a, b);
  expect_near(tensordot(a, x, {2}, {0}), b, tolerance());
  expect_near(tensordot(linalg_tensorinv(a), b, {1, 2}, {0, 1}), x, tolerance());
}

TEST_P(KernelsLapack, SymmetricFactorsSolveWhatIsNotPositive) {
  Tensor half = numbers({2, 5, 5}), a = half + half.mT(), b = numbers({2, 5, 3});
  auto [ld, pivots] = linalg_ldl_factor(a);
  expect_near(matmul(a, linalg_ldl_solve(ld, pivots, b)), b, tolerance() * 10);
}

TEST_P(KernelsLapack, ExponentialsAreThoseOfTheEigenvaluesForSmallAndLargeNorms) {
  for (double scale : {1e-3, 0.1, 0.5, 1.5, 4.0, 30.0}) {
    Tensor a = positive({2, 4, 4});
    a = a * (-scale / linalg_matrix_norm(a, 1.0).max().item<double>());
    auto [values, vectors] = linalg_eigh(to(a, Dtype::f64));
    Tensor expected = matmul(mul(vectors, exp(values).unsqueeze(-2)), vectors.mT());
    expect_near(matrix_exp(a), expected, dtype() == Dtype::f64 ? 1e-12 : 1e-5);
  }
}

TEST_P(KernelsLapack, ManyMatricesAreSolvedAsEachOfThem) {
  Tensor a = numbers({300, 12, 12}) + eye(SymInt(12), dtype()) * 12, b = numbers({300, 12, 4});
  Tensor x = linalg_solve(a, b), s = linalg_svdvals(a);
  for (int64_t i : {0, 1, 150, 299}) {
    expect_near(x.select(0, i), linalg_solve(a.select(0, i), b.select(0, i)), 1e-12);
    expect_near(s.select(0, i), linalg_svdvals(a.select(0, i)), 1e-12);
  }
}

TEST_P(KernelsLapack, ResultsLieAsInPyTorch) {
  Tensor a = positive({3, 4, 4});
  EXPECT_THAT(strides_of(linalg_cholesky(a)), ElementsAre(16, 1, 4));
  EXPECT_THAT(strides_of(linalg_solve(a, numbers({3, 4}))), ElementsAre(1, 3));
  EXPECT_THAT(strides_of(linalg_solve(a, numbers({3, 4, 2}))), ElementsAre(8, 1, 4));
  EXPECT_THAT(strides_of(linalg_solve(a, numbers({3, 2, 4}), false)), ElementsAre(8, 4, 1));
  auto [x, residuals, rank, s] = linalg_lstsq(numbers({2, 5, 3}), numbers({2, 5}));
  EXPECT_THAT(strides_of(x), ElementsAre(5, 1));
}

TEST_P(KernelsLapack, MatricesWithoutElementsAreFactored) {
  Tensor none = zeros({0, 3, 3}, dtype()), flat = zeros({2, 0, 3}, dtype());
  EXPECT_THAT(sizes_of(linalg_cholesky(none)), ElementsAre(0, 3, 3));
  EXPECT_THAT(sizes_of(linalg_inv(none)), ElementsAre(0, 3, 3));
  EXPECT_THAT(sizes_of(std::get<0>(linalg_eigh(none))), ElementsAre(0, 3));
  EXPECT_THAT(sizes_of(matrix_exp(none)), ElementsAre(0, 3, 3));
  EXPECT_THAT(sizes_of(linalg_solve(zeros({2, 0, 0}, dtype()), zeros({2, 0, 3}, dtype()))),
              ElementsAre(2, 0, 3));
  EXPECT_THAT(sizes_of(linalg_solve_triangular(none, zeros({3, 2}, dtype()), true)),
              ElementsAre(0, 3, 2));
  auto [u, s, vh] = linalg_svd(flat);
  EXPECT_THAT(sizes_of(s), ElementsAre(2, 0));
  expect_near(vh, eye(SymInt(3), dtype()).expand({2, 3, 3}), 0);
  auto [q, r] = linalg_qr(flat.mT(), "complete");
  expect_near(q, eye(SymInt(3), dtype()).expand({2, 3, 3}), 0);
  Tensor x = std::get<0>(linalg_lstsq(flat, zeros({2, 0, 2}, dtype())));
  expect_near(x, zeros({2, 3, 2}), 0);
}

TEST(KernelsLapackErrors, TellWhichMatrixIsSingular) {
  Tensor a = stack({eye(SymInt(2)), zeros({2, 2})}), b = ones({2, 2, 1});
  EXPECT_EQ(message_of<UserError>([&] { linalg_solve(a, b); }),
            "linalg_solve: (batch element 1): the matrix is singular: pivot 1 of its factors is "
            "zero");
  EXPECT_EQ(message_of<UserError>([&] { linalg_cholesky(a.neg()); }),
            "linalg_cholesky: (batch element 0): the matrix is not positive-definite: its leading "
            "minor of order 1 is not positive");
  EXPECT_EQ(message_of<UserError>([&] { linalg_lu_factor_ex(a.select(0, 1), true, true); }),
            "linalg_lu_factor: pivot 1 is zero, so that the factors cannot solve a system; call "
            "linalg_lu_factor_ex for the factors alone");
}

TEST(KernelsLapackErrors, AreNumbersInTheFormsThatGiveInfo) {
  Tensor a = stack({eye(SymInt(2)), zeros({2, 2})});
  EXPECT_THAT(std::get<1>(linalg_inv_ex(a)).to_vector<int32_t>(), ElementsAre(0, 1));
  EXPECT_THAT(std::get<1>(linalg_cholesky_ex(a)).to_vector<int32_t>(), ElementsAre(0, 1));
  EXPECT_THAT(std::get<2>(linalg_lu_factor_ex(a)).to_vector<int32_t>(), ElementsAre(0, 1));
}

TEST(KernelsLapackErrors, ComeFromElementsThatAreNotFinite) {
  Tensor a = nan_matrix();
  EXPECT_THAT(std::get<1>(linalg_cholesky_ex(a)).to_vector<int32_t>(), ElementsAre(1));
  EXPECT_EQ(message_of<UserError>([&] { linalg_eigh(a); }),
            "linalg_eigh: the matrix has elements that are not finite");
  EXPECT_EQ(message_of<UserError>([&] { linalg_svd(a); }),
            "linalg_svd: the matrix has elements that are not finite");
  EXPECT_EQ(message_of<UserError>([&] { linalg_lstsq(a, a, std::nullopt, "gelsd"); }),
            "linalg_lstsq: the matrix has elements that are not finite");
}

TEST(KernelsLapackErrors, DoNotComeFromThemWhereTheyPassThrough) {
  Tensor a = nan_matrix(), b = ones({3, 2}, Dtype::f64);
  for (const Tensor& t : {linalg_solve(a, b), linalg_solve_triangular(a, b, true), matrix_exp(a),
                          std::get<1>(linalg_qr(a)), linalg_det(a)})
    EXPECT_TRUE(std::isnan(values_of(t)[0]));
  Tensor infinite = full({3, 3}, std::numeric_limits<double>::infinity(), Dtype::f64);
  EXPECT_TRUE(std::isnan(values_of(matrix_exp(infinite))[0]));
}

TEST(KernelsLapackErrors, NamePivotsThatAreNone) {
  Tensor lu = eye(SymInt(3)), b = ones({3, 1});
  Tensor far = full({3}, 9, Dtype::i32), zero = zeros({3}, Dtype::i32);
  for (const Tensor& pivots : {far, zero})
    EXPECT_THAT(message_of<UserError>([&] { linalg_lu_solve(lu, pivots, b); }),
                HasSubstr("is out of range for matrices of 3 rows"));
  for (int last : {0, 9, -3})
    EXPECT_THAT(
        message_of<UserError>([&] { linalg_ldl_solve(lu, full({3}, last, Dtype::i32), b); }),
        HasSubstr("linalg_ldl_solve: pivot "));
  EXPECT_THAT(message_of<UserError>([&] { lu_unpack(lu, far); }), HasSubstr("is out of range"));
}

TEST(KernelsLapackErrors, NameWhatTheCpuDoesNotDo) {
  Tensor a = eye(SymInt(3));
  EXPECT_EQ(message_of<UserError>([&] { linalg_lu_factor(a, false); }),
            "linalg_lu_factor: factors without pivots are not computed on the CPU; call it with "
            "pivot=True");
  EXPECT_EQ(message_of<UserError>([&] { linalg_svd(a, true, "gesvd"); }),
            "linalg_svd: a driver can be chosen on CUDA only; leave it out");
  EXPECT_THAT(message_of<UserError>([&] { linalg_solve(a, to(a, Dtype::f64)); }),
              HasSubstr("one dtype"));
}

using Tensors = std::vector<Tensor>;

void expect_right_gradients(const std::function<Tensors(const Tensors&)>& f, const Tensors& at) {
  EXPECT_EQ(autograd::grad_check(f, at, {.second_order = true}), "");
}

TEST(KernelsLapackGradients, OfLeastSquaresAgreeWithDifferences) {
  for (auto [rows, columns] : {std::pair{4, 2}, {2, 4}, {3, 3}}) {
    Tensor a = randn({rows, columns}, Dtype::f64) * 0.3 +
               eye(SymInt(rows), SymInt(columns), Dtype::f64) * 2;
    expect_right_gradients(
        [](const Tensors& in) { return Tensors{std::get<0>(linalg_lstsq(in[0], in[1]))}; },
        {a, randn({rows, 2}, Dtype::f64)});
  }
}

// Vectors are determined up to a phase; what is shown here does not depend on it.
TEST(KernelsLapackGradients, OfEigenvaluesWithoutSymmetryAgreeWithDifferences) {
  auto shown = [](const Tensors& in) {
    auto [values, vectors] = linalg_eig(in[0]);
    return Tensors{view_as_real(values), abs(vectors)};
  };
  // Real eigenvalues, and pairs of complex ones.
  Tensor apart = tensor({1.0, 0.2, 0.1, -0.3, 3.0, 0.4, 0.2, 0.1, 6.0}).reshape({3, 3});
  Tensor turning = tensor({1.0, 2.0, 0.1, -2.0, 1.0, 0.3, 0.2, -0.1, 4.0}).reshape({3, 3});
  for (const Tensor& a : {apart, turning, stack({apart, turning})})
    EXPECT_EQ(autograd::grad_check(shown, {a.to(Dtype::f64)}), "");
}

TEST(KernelsLapackGradients, OfReflectionsAgreeWithDifferences) {
  Tensor packed = randn({2, 4, 3}, Dtype::f64), tau = rand({2, 2}, Dtype::f64),
         c = randn({2, 4, 2}, Dtype::f64);
  expect_right_gradients(
      [](const Tensors& in) { return Tensors{linalg_householder_product(in[0], in[1])}; },
      {packed, tau});
  for (bool left : {true, false})
    for (bool transposed : {true, false})
      expect_right_gradients(
          [=](const Tensors& in) { return Tensors{ormqr(in[0], in[1], in[2], left, transposed)}; },
          {packed, tau, left ? c : c.mT().contiguous()});
}

TEST(KernelsLapackThreads, MayCallAtOnce) {
  Tensor a = randn({40, 40}, Dtype::f64), b = randn({40, 3}, Dtype::f64);
  Tensor x = linalg_solve(a, b), s = linalg_svdvals(a);
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 8; ++t)
    threads.emplace_back([&] {
      for (int round = 0; round < 30; ++round) {
        wrong += values_of(linalg_solve(a, b)) != values_of(x);
        wrong += values_of(linalg_svdvals(a)) != values_of(s);
      }
    });
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(wrong.load(), 0);
}

bool is_mapped(const std::string& file) {
  std::stringstream text;
  text << std::ifstream("/proc/self/maps").rdbuf();
  return text.str().find(file) != std::string::npos;
}

TEST(KernelsLapackLoading, HappensAtTheFirstCallWithoutACompile) {
  in_own_process([] {
    EXPECT_FALSE(is_mapped("tenon_kernels_lapack.so"));
    Tensor a = eye(SymInt(2));
    EXPECT_FALSE(is_mapped("tenon_kernels_lapack.so"));
    EXPECT_THAT(values_of(linalg_det(a)), ElementsAre(1));
    EXPECT_TRUE(is_mapped("tenon_kernels_lapack.so"));
  });
}

TEST(KernelsLapackLoading, ServesTheFirstOpOfManyThreads) {
  in_own_process([] {
    std::vector<float> memory = {2, 0, 0, 2};
    std::vector<std::thread> threads;
    std::atomic<int> wrong{0};
    for (int t = 0; t < 8; ++t)
      threads.emplace_back([&] {
        Tensor a = from_memory(memory.data(), {2, 2}, Dtype::f32, {}, nullptr, nullptr);
        wrong += values_of(linalg_det(a)) != std::vector<double>{4};
      });
    for (std::thread& t : threads) t.join();
    EXPECT_EQ(wrong.load(), 0);
  });
}

TEST(KernelsLapackMissing, IsToldWithTheOpThePluginAndTheNextStep) {
  in_own_process([] {
    ::setenv("TENON_PLUGIN_PATH", "!/nowhere", 1);
    set_plugin_search({}, {});  // reads it
    try {
      linalg_cholesky(eye(SymInt(2)));
      ADD_FAILURE() << "no error";
    } catch (const BackendError& e) {
      EXPECT_EQ(e.code(), ErrorCode::plugin);
      EXPECT_STREQ(
          e.what(),
          "PluginError: aten.linalg_cholesky_ex.default needs the plugin kernels_lapack for "
          "its kernel, and no folder of plugins has it; install it, or name its folder in "
          "TENON_PLUGIN_PATH (`tenon plugin list` shows what is found)");
    }
    EXPECT_EQ(message_of<UserError>([] {
                linalg_cholesky(ones({2, 3}));
              }),
              "linalg_cholesky: square matrices are expected, found shape [2, 3]");
  });
}

}  // namespace
}  // namespace tenon
