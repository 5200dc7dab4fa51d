// Rows that no recording covers: Bessel functions, polynomials, distributions, classification of
// sequences, products of groups, eigenvalues without symmetry.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "unit/message_of.h"
#include "unit/ops/values_of.h"

#include <tenon/autograd.h>
#include <tenon/tenon.h>

#include <cmath>
#include <functional>

namespace tenon {
namespace {

using ::testing::HasSubstr;

void expect_near(const Tensor& found, const Tensor& expected, double tolerance) {
  std::vector<double> a = values_of(found.contiguous()), b = values_of(expected.contiguous());
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], tolerance) << "element " << i;
}

Tensor f64(std::initializer_list<double> values) { return tensor(values).to(Dtype::f64); }

TEST(MoreRows, BesselFunctionsAtOne) {
  Tensor one = f64({1});
  expect_near(special_bessel_j0(one), f64({0.7651976865579666}), 1e-14);
  expect_near(special_bessel_j1(one), f64({0.4400505857449335}), 1e-14);
  expect_near(special_bessel_y0(one), f64({0.08825696421567698}), 1e-14);
  expect_near(special_bessel_y1(one), f64({-0.7812128213002887}), 1e-14);
  expect_near(special_modified_bessel_i0(one), f64({1.2660658777520084}), 1e-13);
  expect_near(special_modified_bessel_k0(one), f64({0.42102443824070834}), 1e-14);
  expect_near(special_modified_bessel_k1(one), f64({0.6019072301972346}), 1e-14);
  expect_near(special_spherical_bessel_j0(one), f64({std::sin(1.0)}), 1e-15);
  expect_near(special_airy_ai(f64({1, -1, 0})),
              f64({0.13529241631288141, 0.5355608832923522, 0.35502805388781724}), 1e-14);
}

TEST(MoreRows, ScaledBesselFunctionsGoOnWhereThePlainOnesVanish) {
  Tensor x = f64({25, 29.999, 30.001, 40, 1000});
  Tensor plain = special_modified_bessel_k0(x) * x.exp();
  expect_near(special_scaled_modified_bessel_k0(x).narrow(0, 0, 4), plain.narrow(0, 0, 4), 1e-12);
  EXPECT_NEAR(values_of(special_scaled_modified_bessel_k1(x))[4], 0.03964813081, 1e-9);
  EXPECT_TRUE(std::isnan(values_of(special_modified_bessel_k0(f64({-1})))[0]));
}

TEST(MoreRows, PolynomialsByTheirCoefficients) {
  Tensor x = f64({0.5, -0.25, 2, 1, -1}), x2 = x * x, x3 = x2 * x;
  expect_near(special_chebyshev_polynomial_t(x, 3), x3 * 4 - x * 3, 1e-13);
  expect_near(special_chebyshev_polynomial_u(x, 3), x3 * 8 - x * 4, 1e-13);
  expect_near(special_chebyshev_polynomial_v(x, 2), x2 * 4 - x * 2 - 1, 1e-13);
  expect_near(special_chebyshev_polynomial_w(x, 2), x2 * 4 + x * 2 - 1, 1e-13);
  expect_near(special_hermite_polynomial_h(x, 3), x3 * 8 - x * 12, 1e-13);
  expect_near(special_hermite_polynomial_he(x, 3), x3 - x * 3, 1e-13);
  expect_near(special_laguerre_polynomial_l(x, 2), x2 / 2 - x * 2 + 1, 1e-13);
  expect_near(special_legendre_polynomial_p(x, 2), (x2 * 3 - 1) / 2, 1e-13);
  expect_near(special_shifted_chebyshev_polynomial_t(x, 2),
              special_chebyshev_polynomial_t(x * 2 - 1, 2), 1e-13);
}

TEST(MoreRows, HighDegreesByAngleAreThoseOfTheRecurrence) {
  for (int64_t n : {7, 8, 20}) {
    Tensor x = f64({0.3, -0.7, 0.99}), before = special_chebyshev_polynomial_t(x, n - 1);
    Tensor next = x * 2 * special_chebyshev_polynomial_t(x, n) - before;
    expect_near(special_chebyshev_polynomial_t(x, n + 1), next, 1e-12);
  }
}

TEST(MoreRows, DegreesAreCutAndNegativeOnesGiveZero) {
  Tensor x = f64({0.5, 0.5, 0.5});
  expect_near(special_legendre_polynomial_p(x, f64({2.9, 0.5, -1})), f64({-0.125, 1, 0}), 1e-15);
}

TEST(MoreRows, DistributionsHaveTheirMoments) {
  manual_seed(3);
  Tensor x = empty({200000}, Dtype::f64);
  EXPECT_NEAR(double(x.exponential_(2).mean().item<double>()), 0.5, 0.01);
  EXPECT_NEAR(double(x.geometric_(0.25).mean().item<double>()), 4, 0.05);
  EXPECT_NEAR(double(x.log_normal_(0, 0.5).log().std().item<double>()), 0.5, 0.01);
  EXPECT_NEAR(double(x.cauchy_(1, 2).gt(1).to(Dtype::f64).mean().item<double>()), 0.5, 0.01);
  EXPECT_EQ(double(x.random_(3, 5).sub(3.5).abs().max().item<double>()), 0.5);
}

TEST(MoreRows, MultinomialDrawsByProbability) {
  manual_seed(4);
  Tensor p = tensor({1.0f, 0.0f, 3.0f});
  Tensor drawn = multinomial(p, 100000, true);
  EXPECT_EQ(double(drawn.eq(1).sum().item<int64_t>()), 0);
  EXPECT_NEAR(double(drawn.eq(2).to(Dtype::f64).mean().item<double>()), 0.75, 0.01);
  Tensor once = multinomial(ones({50, 6}), 6);
  expect_near(std::get<0>(once.sort()), arange(6).expand({50, 6}), 0);
  EXPECT_THAT(message_of([&] { multinomial(zeros({3}), 1); }), HasSubstr("must not all be zero"));
  EXPECT_THAT(message_of([&] { multinomial(p, 4); }), HasSubstr("without replacement"));
}

// The probability of `labels`: the sum over all paths that give them.
double by_all_paths(const std::vector<std::vector<double>>& p, std::vector<int64_t> labels) {
  double total = 0;
  std::function<void(size_t, std::vector<int64_t>, int64_t, double)> walk =
      [&](size_t t, std::vector<int64_t> so_far, int64_t last, double probability) {
        if (t == p.size()) {
          if (so_far == labels) total += probability;
          return;
        }
        for (int64_t c = 0; c < static_cast<int64_t>(p[t].size()); ++c) {
          std::vector<int64_t> next = so_far;
          if (c != 0 && c != last) next.push_back(c);
          walk(t + 1, next, c, probability * p[t][static_cast<size_t>(c)]);
        }
      };
  walk(0, {}, 0, 1);
  return -std::log(total);
}

TEST(MoreRows, CtcLossSumsOverAllPaths) {
  manual_seed(5);
  Tensor logits = randn({5, 2, 3}, Dtype::f64).requires_grad_();
  Tensor log_probs = log_softmax(logits, 2);
  Tensor targets = tensor({int64_t{1}, int64_t{1}, int64_t{2}, int64_t{1}}).reshape({2, 2});
  std::vector<int64_t> steps = {5, 4}, lengths = {2, 1};
  Tensor loss = ctc_loss(log_probs, targets, steps, lengths, 0, 0);
  std::vector<double> flat = values_of(log_probs.exp().detach());
  for (int64_t i = 0; i < 2; ++i) {
    std::vector<std::vector<double>> p;
    for (int64_t t = 0; t < steps[static_cast<size_t>(i)]; ++t) {
      auto at = flat.begin() + (t * 2 + i) * 3;
      p.emplace_back(at, at + 3);
    }
    std::vector<int64_t> labels = i == 0 ? std::vector<int64_t>{1, 1} : std::vector<int64_t>{2};
    EXPECT_NEAR(values_of(loss)[static_cast<size_t>(i)], by_all_paths(p, labels), 1e-12);
  }
  loss.sum().backward();
  auto at = [&](double by) {
    Tensor moved = logits.detach() + zeros({5, 2, 3}, Dtype::f64);
    moved.select(0, 1).select(0, 0).select(0, 2).add_(by);
    return double(ctc_loss(log_softmax(moved, 2), targets, steps, lengths, 0, 2).item<double>());
  };
  double slope = (at(1e-6) - at(-1e-6)) / 2e-6;
  EXPECT_NEAR(double(logits.grad().select(0, 1).select(0, 0).select(0, 2).item<double>()), slope,
              1e-7);
}

TEST(MoreRows, AnImpossibleSequenceIsInfiniteOrZero) {
  Tensor log_probs = log_softmax(zeros({1, 1, 3}), 2);
  Tensor targets = tensor({int64_t{1}, int64_t{2}}).reshape({1, 2});
  std::vector<int64_t> one = {1}, two = {2};
  EXPECT_TRUE(std::isinf(values_of(ctc_loss(log_probs, targets, one, two))[0]));
  EXPECT_EQ(values_of(ctc_loss(log_probs, targets, one, two, 0, 1, true))[0], 0);
}

TEST(MoreRows, CtcLossLooksAtLabelsAndNotAtWhatPadsThem) {
  Tensor log_probs = log_softmax(randn({4, 2, 3}), 2);
  std::vector<int64_t> steps = {4, 4}, lengths = {1, 2};
  auto loss = [&](int64_t padding) {
    Tensor targets = tensor({int64_t{2}, padding, int64_t{1}, int64_t{2}}).reshape({2, 2});
    return ctc_loss(log_probs, targets, steps, lengths);
  };
  expect_near(loss(-100), loss(1), 0);
  Tensor targets = tensor({int64_t{1}, int64_t{2}, int64_t{1}});
  auto refused = [&](std::vector<int64_t> n, const Tensor& t) {
    return message_of([&] { ctc_loss(log_probs, t, steps, n); });
  };
  EXPECT_THAT(refused({1, INT64_MAX}, targets), HasSubstr("target_lengths[1] must be at most 2"));
  EXPECT_THAT(refused({1, 2}, targets.to(Dtype::f32)), HasSubstr("targets must be integers"));
  EXPECT_THAT(refused({1, 2}, targets + 2), HasSubstr("target 3 is not one of 3 classes"));
}

TEST(MoreRows, CtcGradientRefusesWhatDoesNotFitTheSamples) {
  Tensor log_probs = log_softmax(randn({4, 2, 3}), 2), lengths = tensor({4, 4}),
         one = tensor({1, 1}), targets = tensor({1, 1}).reshape({2, 1}), loss = ones({2});
  auto refused = [&](const Tensor& grad, int64_t blank) {
    return message_of(
        [&] { _ctc_loss_backward(grad, log_probs, targets, lengths, one, loss, loss, blank); });
  };
  EXPECT_THAT(refused(ones({1}), 0), HasSubstr("one number for each of 2 samples"));
  EXPECT_THAT(refused(ones({2}), 3), HasSubstr("blank must be a class"));
  EXPECT_THAT(refused(ones({2}), -1), HasSubstr("blank must be a class"));
}

TEST(MoreRows, BagsBeginWithTheFirstIndex) {
  Tensor table = randn({4, 2}), rows = tensor({0, 1, 2});
  EXPECT_THAT(message_of([&] {
                embedding_bag(table, rows, tensor({1, 2}));
              }),
              HasSubstr("offsets[0] must be 0, found 1"));
  EXPECT_THAT(message_of([&] {
                embedding_bag(table, rows, zeros({0}, Dtype::i64), false, 0, false, {}, true);
              }),
              HasSubstr("include_last_offset needs at least one offset"));
}

TEST(MoreRows, RandomIntegersStayWithinTheDtype) {
  Tensor wide = zeros({1000}, Dtype::i64);
  wide.random_(int64_t{-4}, std::nullopt);
  EXPECT_GE(wide.min().item<int64_t>(), -4);
  EXPECT_GT(wide.max().item<int64_t>(), int64_t{1} << 61);
  Tensor bytes = zeros({1000}, Dtype::u8);
  EXPECT_THAT(message_of([&] { bytes.random_(int64_t{0}, int64_t{1000}); }),
              HasSubstr("holds 0 to 255"));
  EXPECT_THAT(message_of([&] { bytes.random_(int64_t{-1}, int64_t{10}); }),
              HasSubstr("holds 0 to 255"));
  bytes.random_(int64_t{0}, int64_t{256});
  EXPECT_GT(bytes.to(Dtype::i64).max().item<int64_t>(), 200);
}

TEST(MoreRows, ViewsBeginWithinTheirStorage) {
  EXPECT_THAT(message_of([] { arange(8).as_strided({2}, {1}, -1); }),
              HasSubstr("storage_offset must not be negative"));
}

TEST(MoreRows, RecurrentLayersRefuseWeightsThatDoNotFit) {
  Tensor x = randn({3, 2, 4}), h = zeros({1, 2, 5});
  auto refused = [&](std::vector<Tensor> weights, int64_t layers = 1, Tensor cell = Tensor()) {
    if (!cell.defined()) cell = h;
    return message_of([&] {
      lstm(x, {h, cell}, weights, weights.size() == 4, layers, 0, false, false, false);
    });
  };
  Tensor input = randn({20, 4}), state = randn({20, 5}), bias = randn({20});
  EXPECT_EQ(refused({input, state}), "no error");
  EXPECT_THAT(refused({input.narrow(0, 0, 16), state}), HasSubstr("the weight of the input"));
  EXPECT_THAT(refused({input, state.narrow(1, 0, 4)}), HasSubstr("the weight of the state"));
  EXPECT_THAT(refused({input, state, bias, bias.narrow(0, 0, 5)}),
              HasSubstr("the bias of the state must have shape [20]"));
  EXPECT_THAT(refused({}, 0), HasSubstr("num_layers must be at least 1"));
  EXPECT_THAT(refused({input, state}, 1, zeros({1, 3, 5})), HasSubstr("the initial state"));
  Tensor narrow = randn({20, 4});
  EXPECT_NE(refused({input, state, narrow, state}, 2), "no error");
}

TEST(MoreRows, GroupedProductsAreThoseOfTheParts) {
  Tensor a = randn({7, 4}).requires_grad_(), b = randn({3, 4, 5}).requires_grad_();
  Tensor ends = tensor({2, 2, 7}).to(Dtype::i32);
  Tensor found = _grouped_mm(a, b, ends);
  Tensor expected =
      cat({mm(a.narrow(0, 0, 2), b.select(0, 0)), mm(a.narrow(0, 2, 5), b.select(0, 2))});
  expect_near(found, expected, 1e-5);
  found.mul(found).sum().backward();
  Tensor ga = a.grad().clone(), gb = b.grad().clone();
  a.set_grad({});
  b.set_grad({});
  expected.mul(expected).sum().backward();
  expect_near(ga, a.grad(), 1e-4);
  expect_near(gb, b.grad(), 1e-4);
  Tensor wrong = tensor({2, 1, 7}).to(Dtype::i32);
  EXPECT_THAT(message_of([&] { _grouped_mm(a, b, wrong); }), HasSubstr("offs must grow"));
}

TEST(MoreRows, BesselFunctionsHaveTwoDerivatives) {
  using Function = Tensor (*)(const Tensor&);
  const Function all[] = {special_bessel_j0,          special_bessel_j1,
                          special_bessel_y0,          special_bessel_y1,
                          special_modified_bessel_i0, special_modified_bessel_i1,
                          special_modified_bessel_k0, special_modified_bessel_k1};
  for (size_t i = 0; i < std::size(all); ++i) {
    auto f = [&](const std::vector<Tensor>& in) { return std::vector<Tensor>{all[i](in[0])}; };
    EXPECT_EQ(autograd::grad_check(f, {f64({0.3, 1.7, 6.5})}, {.second_order = true}), "") << i;
  }
  for (Function odd : {special_bessel_j1, special_modified_bessel_i1}) {
    Tensor zero = f64({0}).requires_grad_();
    odd(zero).backward();
    expect_near(zero.grad(), f64({0.5}), 0);
  }
}

TEST(MoreRows, VandermondeMatricesGoUpInPowers) {
  expect_near(linalg_vander(f64({2, 3}), 4), f64({1, 2, 4, 8, 1, 3, 9, 27}).reshape({2, 4}), 0);
}

TEST(MoreRows, AVandermondeMatrixOfANumberIsOneRow) {
  expect_near(linalg_vander(f64({2}).squeeze(0), 3), f64({1, 2, 4}), 0);
}

TEST(MoreRows, CircularPaddingWrapsWhatNegativePaddingLeaves) {
  Tensor x = f64({0, 1, 2, 3}).view({1, 1, 4});
  expect_near(pad(x, {-1, 1}, "circular"), f64({1, 2, 3, 1}), 0);
  expect_near(pad(x, {2, -1}, "circular"), f64({1, 2, 0, 1, 2}), 0);
  EXPECT_THAT(message_of([&] { pad(x, {-2, 3}, "circular"); }), HasSubstr("larger than size 2"));
}

// The sum of the squares of eigenvalues is that of all elements.
TEST(MoreRows, OfNoChannelsAConvolutionMakesNone) {
  Tensor bias = zeros({3}).requires_grad_();
  Tensor y = conv2d(zeros({2, 0, 5, 5}), zeros({3, 0, 3, 3}), bias);
  EXPECT_EQ(y.sizes(), SymIntList({2, 0, 3, 3}));
  y.sum().backward();
  EXPECT_EQ(bias.grad().to_vector<float>(), std::vector<float>(3));
}

TEST(MoreRows, BilinearFormsOfIntegersAreIntegersOfTheirDtype) {
  Tensor x = tensor<int64_t>({{3, 5}}).to(Dtype::u8), weight = full({1, 2, 2}, 30).to(Dtype::u8);
  Tensor y = bilinear(x, x, weight);
  EXPECT_EQ(y.dtype(), Dtype::u8);
  EXPECT_EQ(y.to_vector<uint8_t>(), (std::vector<uint8_t>{(30 * 64) % 256}));
}

TEST(MoreRows, EigenvaluesAloneHaveGradients) {
  Tensor x = randn({4, 4}).to(Dtype::f64), a = x.add(x.t()).detach().requires_grad_();
  linalg_eigvalsh(a).square().sum().backward();
  expect_near(a.grad(), a.detach().mul(2), 1e-12);
}

// Of a matrix of full rank the pseudoinverse is the inverse. Of any, a x pinv x a = a, along
// directions that keep the rank.
TEST(MoreRows, PseudoinversesHaveGradientsAtAnyRank) {
  Tensor x = randn({4, 4}).to(Dtype::f64), weights = randn({4, 4}).to(Dtype::f64);
  for (bool hermitian : {false, true}) {
    Tensor a = x.add(x.t()).add(eye(4, Dtype::f64).mul(9)).requires_grad_();
    linalg_pinv(a, std::optional<double>(), std::nullopt, hermitian).mul(weights).sum().backward();
    Tensor inverse = linalg_inv(a.detach());
    expect_near(a.grad(), inverse.t().matmul(weights).matmul(inverse.t()).neg(), 1e-12);
  }
  Tensor low = randn({5, 2}).to(Dtype::f64).matmul(randn({2, 3}).to(Dtype::f64)).requires_grad_();
  low.matmul(linalg_pinv(low, std::optional<double>())).matmul(low).sum().backward();
  Tensor along = randn({5, 5}).to(Dtype::f64).matmul(low.detach());
  along = along.add(low.detach().matmul(randn({3, 3}).to(Dtype::f64)));
  expect_near(low.grad().mul(along).sum(), along.sum(), 1e-10);
}

TEST(MoreRows, ThePowerZeroHasAGradientOfZeros) {
  Tensor a = randn({2, 3, 3}).requires_grad_();
  Tensor one = linalg_matrix_power(a, 0);
  expect_near(one.detach(), eye(3).expand({2, 3, 3}), 0);
  one.sum().backward();
  expect_near(a.grad(), zeros({2, 3, 3}), 0);
}

TEST(MoreRows, AGradientOfMaxPoolingHasZerosForItsInput) {
  Tensor x = randn({1, 1, 4, 4}).requires_grad_();
  auto [y, places] = max_pool2d_with_indices(x.detach(), {2, 2}, {2, 2});
  Tensor g = ones({1, 1, 2, 2}).requires_grad_();
  max_pool2d_with_indices_backward(g, x, {2, 2}, {2, 2}, {0, 0}, {1, 1}, false, places)
      .sum()
      .backward();
  expect_near(x.grad(), zeros({1, 1, 4, 4}), 0);
  expect_near(g.grad(), ones({1, 1, 2, 2}), 0);
}

TEST(MoreRows, TolerancesOfRanksMayDifferFromMatrixToMatrix) {
  Tensor a = diag_embed(f64({1, 0.01})).expand({2, 2, 2});
  Tensor tolerances = f64({0.1, 0.001});
  expect_near(linalg_matrix_rank(a, tolerances), tensor({1.0, 2.0}), 0);
  Tensor inverse = linalg_pinv(a, tolerances);
  expect_near(inverse.select(0, 0), f64({1, 0, 0, 0}), 1e-12);
  expect_near(inverse.select(0, 1), f64({1, 0, 0, 100}), 1e-10);
}

TEST(MoreRows, CodesOfLapackAreErrorsOfTheFunctionThatAsked) {
  _linalg_check_errors(zeros({3}, Dtype::i32), "linalg.inv", false);
  Tensor codes = tensor({0, 2, 0}).to(Dtype::i32);
  EXPECT_THAT(message_of([&] { _linalg_check_errors(codes, "linalg.inv", false); }),
              HasSubstr("linalg.inv: (batch element 1): the matrix is singular"));
  EXPECT_THAT(message_of([&] { _linalg_check_errors(codes.select(0, 1), "linalg.inv", true); }),
              HasSubstr("linalg.inv: the matrix is singular"));
}

}  // namespace
}  // namespace tenon
