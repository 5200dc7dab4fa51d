// Complex tensors compute on their parts: values against std::complex, gradients against those of
// the parts written out.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "unit/message_of.h"

#include <tenon/tenon.h>

#include <complex>

namespace tenon {
namespace {

using ::testing::HasSubstr;
using Complex = std::complex<double>;

std::vector<Complex> complex_values(const Tensor& t) {
  std::vector<double> flat = view_as_real(t.contiguous()).to(Dtype::f64).to_vector<double>();
  std::vector<Complex> out;
  for (size_t i = 0; i < flat.size(); i += 2) out.emplace_back(flat[i], flat[i + 1]);
  return out;
}

Tensor real_parts() { return tensor({1.5, -2.0, 0.25, 3.0}); }
Tensor complex_example() {
  return complex(real_parts(), tensor({-0.5, 1.0, 2.0, -4.0})).to(Dtype::c128);
}

template <class Op, class Expected>
void expect_each(Op op, Expected expected) {
  Tensor z = complex_example();
  std::vector<Complex> in = complex_values(z), out = complex_values(op(z));
  for (size_t i = 0; i < in.size(); ++i)
    EXPECT_NEAR(std::abs(out[i] - Complex(expected(in[i]))), 0, 1e-12) << "element " << i;
}

TEST(Complex, FunctionsOfOneNumber) {
  expect_each([](const Tensor& z) { return neg(z); }, [](Complex z) { return -z; });
  expect_each([](const Tensor& z) { return reciprocal(z); }, [](Complex z) { return 1.0 / z; });
  expect_each([](const Tensor& z) { return exp(z); }, [](Complex z) { return std::exp(z); });
  expect_each([](const Tensor& z) { return log(z); }, [](Complex z) { return std::log(z); });
  expect_each([](const Tensor& z) { return sqrt(z); }, [](Complex z) { return std::sqrt(z); });
  expect_each([](const Tensor& z) { return sin(z); }, [](Complex z) { return std::sin(z); });
  expect_each([](const Tensor& z) { return cos(z); }, [](Complex z) { return std::cos(z); });
  expect_each([](const Tensor& z) { return sgn(z); }, [](Complex z) { return z / std::abs(z); });
  expect_each([](const Tensor& z) { return pow(z, 3); }, [](Complex z) { return z * z * z; });
  expect_each([](const Tensor& z) { return conj(z); }, [](Complex z) { return std::conj(z); });
}

TEST(Complex, IntegersAreSubtractedAsTheyAre) {
  for (Dtype dtype : {Dtype::u8, Dtype::i8}) {
    Tensor n = tensor({1, 2, 3, 4}).to(dtype);
    if (dtype == Dtype::i8) n = n * -32;  // -128 among them
    std::vector<Complex> found = complex_values(complex_example() - n),
                         back = complex_values(n - complex_example());
    std::vector<double> plain = n.to(Dtype::f64).to_vector<double>();
    for (size_t i = 0; i < 4; ++i) {
      EXPECT_EQ(found[i], complex_values(complex_example())[i] - plain[i]);
      EXPECT_EQ(back[i], plain[i] - complex_values(complex_example())[i]);
    }
  }
}

TEST(Complex, InfinityOnTheRealAxisStaysThere) {
  Tensor z = complex(tensor({INFINITY, -INFINITY}), zeros({2}));
  EXPECT_EQ(complex_values(sqrt(z))[0], Complex(INFINITY, 0));
  EXPECT_EQ(complex_values(exp(z))[0], Complex(INFINITY, 0));
  EXPECT_EQ(complex_values(exp(z))[1], Complex(0, 0));
}

TEST(Complex, SummandsOfProductsHaveRealFactorsAndAreNotReadForBetaZero) {
  Tensor a = complex_example().reshape({2, 2}), b = a.t().contiguous(), broken = a * NAN;
  std::vector<Complex> product = complex_values(mm(a, b)),
                       first = complex_values(addmm(broken, a, b, 0, 0.5)),
                       batched = complex_values(
                           baddbmm(a.unsqueeze(0), a.unsqueeze(0), b.unsqueeze(0), 0.5, 0.5));
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_NEAR(std::abs(first[i] - product[i] * 0.5), 0, 1e-12);
    EXPECT_NEAR(std::abs(batched[i] - (complex_values(a)[i] + product[i]) * 0.5), 0, 1e-12);
  }
  EXPECT_THAT(message_of([&] { mm(a, real(b).contiguous()); }), HasSubstr("one dtype"));
}

TEST(Complex, ArithmeticWithComplexRealAndPlainNumbers) {
  Tensor real = tensor({2.0, 3.0, -1.0, 0.5});
  expect_each([](const Tensor& z) { return z * z; }, [](Complex z) { return z * z; });
  expect_each([](const Tensor& z) { return add(z, z, 2); }, [](Complex z) { return 3.0 * z; });
  expect_each([](const Tensor& z) { return 2.0 / z - z / 4.0; },
              [](Complex z) { return 2.0 / z - z / 4.0; });
  std::vector<Complex> sum = complex_values(complex_example() + real),
                       quotient = complex_values(real / complex_example());
  EXPECT_EQ(sum[1], Complex(1, 1));
  EXPECT_NEAR(std::abs(quotient[1] - 3.0 / Complex(-2, 1)), 0, 1e-14);
  EXPECT_EQ((complex_example().to(Dtype::c64) + 1).dtype(), Dtype::c64);
}

TEST(Complex, DifferencesTheOtherWayRound) {
  Tensor z = complex_example();
  expect_each([](const Tensor& x) { return rsub(x, Number(3), 2); },
              [](Complex x) { return 3.0 - 2.0 * x; });
  expect_each([](const Tensor& x) { return rsub(x, x * 3.0, 2); }, [](Complex x) { return x; });
  EXPECT_EQ(complex_values(rsub(z, real(z)))[1], -Complex(0, complex_values(z)[1].imag()));
}

// What ATen writes for the imaginary part of a conjugate.
TEST(Complex, NegatedViewsAreNegated) {
  Tensor parts = view_as_real(complex_example()).clone().requires_grad_();
  Tensor found = _neg_view(select(parts, -1, 1));
  EXPECT_EQ(found.to_vector<double>(), imag(conj(complex_example())).to_vector<double>());
  found.sum().backward();
  EXPECT_EQ(parts.grad().to_vector<double>(), (std::vector<double>{0, -1, 0, -1, 0, -1, 0, -1}));
}

TEST(Complex, AnAdjointIsConjugated) {
  Tensor m = complex_example().reshape({2, 2});
  std::vector<Complex> in = complex_values(m);
  for (const Tensor& found : {m.mH(), matrix_H(m), adjoint(m)})
    EXPECT_EQ(complex_values(found.contiguous())[1], std::conj(in[2]));
  Tensor plain = tensor({1.0, 2.0, 3.0, 4.0}).reshape({2, 2});
  plain.mH().select(0, 0).fill_(7);
  EXPECT_EQ(plain.to(Dtype::f64).to_vector<double>(), (std::vector<double>{7, 2, 7, 4}))
      << "a view of real numbers";
}

TEST(Complex, PaddingsHaveTheGradientsOfBothParts) {
  Tensor parts = view_as_real(complex_example()).clone().requires_grad_();
  Tensor z = view_as_complex(parts).reshape({1, 4});
  view_as_real(add(pad(z, {2, 1}, "reflect"), pad(z, {2, 1}, "replicate"))).sum().backward();
  EXPECT_EQ(parts.grad().to(Dtype::f64).to_vector<double>(),
            (std::vector<double>{4, 4, 3, 3, 4, 4, 3, 3}));
}

TEST(Complex, ImaginaryPartsCountWhereNumbersBecomeDoubles) {
  Tensor z = complex_example().to(Dtype::c64);
  std::vector<bool> close = isclose(z, z.conj()).to_vector<bool>();
  for (size_t i = 0; i < 4; ++i)
    EXPECT_EQ(close[i], complex_values(complex_example())[i].imag() == 0) << i;
  EXPECT_EQ(isclose(z, z + 1e-9).to_vector<bool>(), std::vector<bool>(4, true));
  Tensor power = float_power(z, Number(2));
  EXPECT_EQ(power.dtype(), Dtype::c128);
  for (size_t i = 0; i < 4; ++i)
    EXPECT_NEAR(std::abs(complex_values(power)[i] - std::pow(complex_values(z)[i], 2)), 0, 1e-6);
  EXPECT_THAT(message_of([&] { float_power(z, z); }), HasSubstr("complex"));
}

TEST(Complex, ALogicalOpAsksForNumbersOtherThanZero) {
  Tensor z = complex(tensor({0.0, 0.0, 1.0}), tensor({0.0, 2.0, 0.0}));
  using Truths = std::vector<bool>;
  EXPECT_EQ(logical_not(z).to_vector<bool>(), (Truths{true, false, false}));
  EXPECT_EQ(logical_and(z, real(z)).to_vector<bool>(), (Truths{false, false, true}));
  EXPECT_EQ(logical_or(z, real(z)).to_vector<bool>(), (Truths{false, true, true}));
  EXPECT_EQ(logical_xor(real(z), z).to_vector<bool>(), (Truths{false, true, false}));
}

TEST(Complex, QuotientsDoNotOverflow) {
  Tensor z = complex(full({1}, 1e30), full({1}, 1e30));
  EXPECT_EQ(complex_values(z / z)[0], Complex(1, 0));
}

TEST(Complex, ReductionsAndProducts) {
  Tensor z = complex_example();
  std::vector<Complex> in = complex_values(z);
  Complex sum = in[0] + in[1] + in[2] + in[3];
  EXPECT_NEAR(std::abs(complex_values(z.sum())[0] - sum), 0, 1e-13);
  EXPECT_NEAR(std::abs(complex_values(z.mean())[0] - sum / 4.0), 0, 1e-13);
  Tensor m = z.reshape({2, 2});
  EXPECT_NEAR(std::abs(complex_values(matmul(m, m))[0] - (in[0] * in[0] + in[1] * in[2])), 0,
              1e-12);
  EXPECT_NEAR(std::abs(complex_values(vdot(z, z))[0] - double(z.abs().pow(2).sum().item<double>())),
              0, 1e-12);
  EXPECT_NEAR(linalg_vector_norm(z).item<double>(), std::sqrt(complex_values(vdot(z, z))[0].real()),
              1e-12);
}

TEST(Complex, InnerProductsConjugateTheirFirstVector) {
  Tensor z = complex_example(), w = z * 2.0 + 1.0;
  Complex expected = 0;
  for (size_t i = 0; i < 4; ++i) expected += std::conj(complex_values(z)[i]) * complex_values(w)[i];
  EXPECT_NEAR(std::abs(complex_values(vdot(z, w))[0] - expected), 0, 1e-12);
  EXPECT_NEAR(std::abs(complex_values(linalg_vecdot(z, w))[0] - expected), 0, 1e-12);
}

TEST(Complex, ConvolutionsMultiplyComplexNumbers) {
  Tensor z = complex_example(), kernel = z.slice(0, 1, 3);
  Tensor found = conv1d(z.reshape({1, 1, 4}), kernel.reshape({1, 1, 2}), z.slice(0, 0, 1));
  std::vector<Complex> in = complex_values(z), out = complex_values(found);
  ASSERT_EQ(out.size(), 3u);
  for (size_t i = 0; i < 3; ++i)
    EXPECT_NEAR(std::abs(out[i] - (in[i] * in[1] + in[i + 1] * in[2] + in[0])), 0, 1e-12);
  EXPECT_THAT(message_of([&] {
                convolution_backward(found, z.reshape({1, 1, 4}), kernel.reshape({1, 1, 2}), {},
                                     {1}, {0}, {1}, false, {0}, 1, {true, true, false});
              }),
              HasSubstr("convolution does not compute on dtype c128"));
}

TEST(Complex, ComparisonsLookAtBothParts) {
  Tensor z = complex_example(), other = complex(real_parts(), tensor({-0.5, 1.0, 2.0, 4.0}));
  EXPECT_EQ(eq(z, other).to(Dtype::i64).to_vector<int64_t>(), (std::vector<int64_t>{1, 1, 1, 0}));
  EXPECT_EQ(ne(z, other).sum().item<int64_t>(), 1);
  EXPECT_EQ(isfinite(z).sum().item<int64_t>(), 4);
}

TEST(Complex, WritesInPlace) {
  Tensor z = complex_example(), twice = complex_example();
  twice.add_(z);
  EXPECT_EQ(complex_values(twice)[3], Complex(6, -8));
  twice.mul_(z);
  EXPECT_NEAR(std::abs(complex_values(twice)[3] - 2.0 * Complex(3, -4) * Complex(3, -4)), 0, 1e-12);
}

// The gradient is that of the real part plus i times that of the imaginary part.
TEST(Complex, GradientsAreThoseOfTheParts) {
  Tensor z = complex_example().requires_grad_();
  (z * z * conj(z)).abs().sum().backward();  // |z|^3
  std::vector<Complex> grad = complex_values(z.grad()), in = complex_values(z.detach());
  for (size_t i = 0; i < in.size(); ++i)
    EXPECT_NEAR(std::abs(grad[i] - 3 * std::abs(in[i]) * in[i]), 0, 1e-11);
}

TEST(Complex, TheMagnitudeOfZeroHasTheGradientZero) {
  Tensor z = complex(zeros({2}), zeros({2})).requires_grad_();
  z.abs().sum().backward();
  EXPECT_EQ(complex_values(z.grad())[0], Complex(0, 0));
}

TEST(Complex, RealLeavesGetRealGradients) {
  Tensor x = tensor({3.0, 4.0}).requires_grad_();
  Tensor rotated = x.to(Dtype::c128) * complex(tensor({0.0, 0.0}), tensor({1.0, 1.0}));
  real(rotated * conj(rotated)).sum().backward();
  EXPECT_EQ(x.grad().to(Dtype::f64).to_vector<double>(), (std::vector<double>{6, 8}));
}

TEST(Complex, OpsWithoutAMeaningThereAreRefused) {
  EXPECT_THAT(message_of([] { complex_example().erf(); }),
              HasSubstr("does not compute on complex tensors"));
}

TEST(Complex, CompiledCodeAgreesWhereTheHostsKernelsRun) {
  auto body = [](const Tensor& z, const Tensor& w) { return (exp(z) * w / (z + 2.0)).sum(); };
  for (const char* backend : {"eager", "aot_eager"}) {
    auto compiled = compile(body, {.backend = backend});
    Tensor z = complex_example(), w = tensor({1.0, 2.0, 3.0, 4.0});
    EXPECT_NEAR(std::abs(complex_values(compiled(z, w))[0] - complex_values(body(z, w))[0]), 0,
                1e-12);
  }
}

TEST(Complex, TruthIsThatOfBothParts) {
  Tensor z = complex(tensor({0.0, 0.0, 1.0}), tensor({0.0, 2.0, 0.0}));
  EXPECT_TRUE(z.any().item<bool>());
  EXPECT_FALSE(z.all().item<bool>());
  EXPECT_TRUE(z.slice(0, 1).all().item<bool>());
  EXPECT_FALSE(z.slice(0, 0, 1).any().item<bool>());
  EXPECT_EQ(z.count_nonzero().item<int64_t>(), 2);
}

TEST(Complex, WhatKnowsRealNumbersOnlySaysSo) {
  EXPECT_THAT(message_of([] { complex_example().logsumexp(0); }),
              HasSubstr("logsumexp does not compute on dtype c128"));
  EXPECT_THAT(message_of([] { complex_example().histc(); }),
              HasSubstr("histc does not compute on dtype c128"));
  EXPECT_THAT(message_of([] { complex_example().nansum(); }),
              HasSubstr("nansum does not compute on dtype c128"));
}

void expect_numbers(const Tensor& found, const std::vector<Complex>& expected) {
  std::vector<Complex> values = complex_values(found);
  ASSERT_EQ(values.size(), expected.size());
  for (size_t i = 0; i < values.size(); ++i)
    EXPECT_NEAR(std::abs(values[i] - expected[i]), 0, 1e-12) << i;
}

TEST(Complex, ProductsOfAllNumbersAndOfThoseBefore) {
  expect_numbers(complex_example().prod(), {{-34.375, 9.375}});
  expect_numbers(complex_example().cumprod(0),
                 {{1.5, -0.5}, {-2.5, 2.5}, {-5.625, -4.375}, {-34.375, 9.375}});
  expect_numbers(complex_example().reshape({2, 2}).prod(0, true), {{1.375, 2.875}, {-2, 11}});
  expect_numbers(complex_example().narrow(0, 0, 3).prod(), {{-5.625, -4.375}});
  expect_numbers(complex_example().narrow(0, 0, 0).prod(), {{1, 0}});
}

// The numbers are PyTorch's.
TEST(Complex, ProductsHaveGradientsBesideZeros) {
  auto gradient = [](bool has_zero, bool cumulative) {
    Tensor z = complex_example();
    if (has_zero) z.select(0, 1).copy_(zeros({}));
    z.requires_grad_();
    Tensor y = view_as_real(cumulative ? z.cumprod(0) : z.prod());
    Tensor weight = cumulative ? stack({arange(4).to(Dtype::f64), ones({4}, Dtype::f64)}, 1)
                               : tensor({2.0, 3.0});
    (y * weight).sum().backward();
    return z.grad();
  };
  expect_numbers(gradient(false, false),
                 {{-48.75, -65}, {40.625, 40.625}, {57.5, -27.5}, {-24.375, -8.125}});
  expect_numbers(gradient(false, true),
                 {{-78.5, -15.75}, {56.625, 3.875}, {22.5, -57.5}, {-21.25, 7.5}});
  expect_numbers(gradient(true, false), {{0, 0}, {40.625, 40.625}, {0, 0}, {0, 0}});
  expect_numbers(gradient(true, true), {{0, 1}, {56.625, 3.875}, {0, 0}, {0, 0}});
}

}  // namespace
}  // namespace tenon
