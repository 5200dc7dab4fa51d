// kernels_fftw: transforms against their sums, every norm, strides, batches, gradients, and the
// same through every backend.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "unit/message_of.h"

#include <tenon/tenon.h>

#include <cmath>
#include <numbers>
#include <thread>

namespace tenon {
namespace {

using ::testing::HasSubstr;

Tensor magnitude(const Tensor& t) { return is_complex(t.dtype()) ? abs(t) : t.abs(); }

void expect_near(const Tensor& found, const Tensor& expected, double tolerance) {
  ASSERT_EQ(found.sizes().size(), expected.sizes().size());
  ASSERT_EQ(found.dtype(), expected.dtype());
  EXPECT_LE(magnitude(found - expected).max().item<double>(), tolerance);
}

// exp(-2 pi i j k / n) for all j and k.
Tensor fourier_matrix(int64_t n) {
  Tensor k = arange(n, Dtype::f64);
  Tensor angle = outer(k, k) * (-2 * std::numbers::pi / static_cast<double>(n));
  return complex(cos(angle), sin(angle));
}

Tensor complex_numbers(std::vector<SymInt> sizes) {
  return complex(randn(sizes, Dtype::f64), randn(sizes, Dtype::f64));
}

// Strides and batches have plans of their own, which may round otherwise. Of numbers below 30.
constexpr double few_ulp = 1e-14;

class KernelsFftw : public testing::Test {
 protected:
  void SetUp() override { manual_seed(7); }
};

TEST_F(KernelsFftw, TransformsAreTheirSumsWhateverTheFactors) {
  for (int64_t n : {1, 2, 3, 7, 12, 31, 64, 97, 100}) {
    Tensor x = complex_numbers({4, n});
    expect_near(fft_fft(x), matmul(x, fourier_matrix(n)), 1e-11);
  }
}

TEST_F(KernelsFftw, BackAndForthIsTheInput) {
  Tensor x = complex_numbers({3, 5, 6}), r = randn({3, 5, 7}, Dtype::f64);
  for (std::string_view norm : {"backward", "ortho", "forward"}) {
    expect_near(fft_ifft(fft_fft(x, {}, 1, norm), {}, 1, norm), x, 1e-13);
    expect_near(fft_ifftn(fft_fftn(x, {}, {}, norm), {}, {}, norm), x, 1e-13);
    expect_near(fft_irfft(fft_rfft(r, {}, -1, norm), 7, -1, norm), r, 1e-13);
    std::vector<SymInt> sizes = {5, 7};
    expect_near(fft_irfft2(fft_rfft2(r, {}, {-2, -1}, norm), sizes, {-2, -1}, norm), r, 1e-13);
    expect_near(fft_hfft(fft_ihfft(r, {}, -1, norm), 7, -1, norm), r, 1e-13);
  }
}

TEST_F(KernelsFftw, ARealInputHasTheTransformOfAComplexOne) {
  Tensor r = randn({4, 9}, Dtype::f64);
  Tensor z = complex(r, zeros_like(r));
  expect_near(fft_fft(r), fft_fft(z), 1e-13);
  expect_near(fft_rfft(r), narrow(fft_fft(z), 1, 0, 5), 1e-13);
}

TEST_F(KernelsFftw, StridesOfTheInputDoNotMatter) {
  Tensor x = complex_numbers({8, 6, 5});
  Tensor across = permute(x, {2, 0, 1}), every_second = slice(x, 0, 0, 8, 2);
  expect_near(fft_fft(across, {}, 1), fft_fft(across.contiguous(), {}, 1), few_ulp);
  expect_near(fft_fftn(every_second), fft_fftn(every_second.contiguous()), 1e-13);
  Tensor repeated = expand(slice(x, 0, 0, 1), {4, 6, 5});
  expect_near(fft_fft(repeated), fft_fft(repeated.contiguous()), few_ulp);
}

TEST_F(KernelsFftw, LargeBatchesOnAllThreadsAreThoseOfOne) {
  Tensor x = randn({64, 4096});
  Tensor whole = fft_rfft(x);
  constexpr double few_ulp_of_f32 = 1e-4;  // at some 200, the largest of these numbers
  for (int64_t i : {0, 31, 63})
    expect_near(select(whole, 0, i), fft_rfft(select(x, 0, i)), few_ulp_of_f32);
}

TEST_F(KernelsFftw, InputsAreCutAndPadded) {
  Tensor x = complex_numbers({2, 6});
  expect_near(fft_fft(x, 4), fft_fft(narrow(x, 1, 0, 4)), few_ulp);
  expect_near(fft_fft(x, 9), matmul(constant_pad_nd(x, {0, 3}), fourier_matrix(9)), 1e-12);
}

TEST_F(KernelsFftw, GradientsAreThoseOfTheSums) {
  Tensor x = randn({3, 8}, Dtype::f64).requires_grad_();
  Tensor weights = randn({3, 8}, Dtype::f64);
  magnitude(fft_fft(x * 2.0)).mul(weights).sum().backward();
  Tensor y = x.detach().requires_grad_();
  Tensor z = complex(y * 2.0, zeros_like(y));
  magnitude(matmul(z, fourier_matrix(8))).mul(weights).sum().backward();
  expect_near(x.grad(), y.grad(), 1e-12);
}

TEST_F(KernelsFftw, GradientsOfHalfSpectraCountMirroredElementsTwice) {
  for (int64_t n : {8, 9}) {
    Tensor x = randn({2, n}, Dtype::f64).requires_grad_();
    Tensor weights = randn({2, n}, Dtype::f64);
    fft_irfft(fft_rfft(x), n).mul(weights).sum().backward();
    expect_near(x.grad(), weights, 1e-13);
  }
}

// A filter in the frequencies, as sequence models have it.
Tensor filtered(const Tensor& x, const Tensor& filter) {
  Tensor spectrum = fft_rfft(x, {}, 1);
  return fft_irfft(mul(spectrum, filter), x.size(1), 1) + x;
}

TEST_F(KernelsFftw, EveryBackendComputesAndDifferentiatesAFilter) {
  Tensor filter = complex(randn({17, 4}), randn({17, 4}));
  for (const char* backend : {"eager", "aot_eager", "inductor", "debug_nop"}) {
    auto compiled = compile(filtered, {.backend = backend});
    for (int round = 0; round < 3; ++round) {
      Tensor x = randn({2, 32, 4}).requires_grad_(), y = x.detach().requires_grad_();
      Tensor plain = filtered(y, filter), found = compiled(x, filter);
      expect_near(found, plain, 1e-5);
      found.mul(found).sum().backward();
      plain.mul(plain).sum().backward();
      expect_near(x.grad(), y.grad(), 1e-4);
    }
  }
}

// A Hann window begins with 0: what is cut off was divided by it.
TEST_F(KernelsFftw, AnInverseThatIsCutHasFiniteGradients) {
  Tensor window = tensor({0.0, 0.146447, 0.5, 0.853553, 1.0, 0.853553, 0.5, 0.146447});
  auto loss = [&](const Tensor& x) {
    Tensor spectrum = complex(x.select(0, 0), x.select(0, 1));
    return istft(spectrum, 8, 2, 8, window.to(x.dtype())).pow(2).sum();
  };
  Tensor x = randn({2, 5, 6}, Dtype::f64).requires_grad_();
  loss(x).backward();
  Tensor moved = x.detach().clone();
  moved.select(0, 0).select(0, 2).select(0, 3).add_(1e-6);
  double slope = item(x.grad().select(0, 0).select(0, 2).select(0, 3)).to_double();
  EXPECT_NEAR(item(loss(moved) - loss(x.detach())).to_double() / 1e-6, slope, 1e-4);
  EXPECT_TRUE(item(x.grad().isfinite().all()).to_double());
}

TEST_F(KernelsFftw, SizesThatChangeAreRight) {
  Tensor filter = complex(ones({1, 1}), zeros({1, 1}));
  auto compiled = compile(filtered, {.dynamic = true});
  for (int64_t n : {32, 48, 33, 20, 64})
    expect_near(compiled(full({2, n, 3}, 1.5), filter), full({2, n, 3}, 3.0), 1e-5);
}

TEST_F(KernelsFftw, ManyThreadsMayTransform) {
  Tensor x = complex_numbers({16, 60}), expected = fft_fft(x);
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 50; ++i) expect_near(fft_ifft(fft_fft(x)), x, 1e-12);
      expect_near(fft_fft(x), expected, 0);
    });
  for (std::thread& t : threads) t.join();
}

// Columns that lie 1024 bytes apart or a multiple of it go through a buffer.
TEST_F(KernelsFftw, LongColumnsAreTheirSumsToo) {
  for (int64_t columns : {64, 192}) {
    Tensor x = complex_numbers({2, 300, columns}), rows = fourier_matrix(300);
    Tensor down = matmul(rows, x), both = matmul(down, fourier_matrix(columns));
    expect_near(fft_fft(x, {}, 1), down, 1e-10);
    expect_near(fft_fft2(x), both, 1e-9);
    expect_near(fft_fft2(x.transpose(1, 2)), both.transpose(1, 2), 1e-9);
    expect_near(fft_ifft2(both), x, 1e-12);
    Tensor single = x.slice(0, 0, 1).permute({1, 0, 2});
    expect_near(fft_fftn(single),
                matmul(down, fourier_matrix(columns)).slice(0, 0, 1).permute({1, 0, 2}), 1e-9);
    Tensor real = randn({2, 300, 2 * columns - 2}, Dtype::f64), half = fft_rfft2(real);
    expect_near(fft_irfft2(half), real, 1e-12);
    Tensor whole = fft_fft2(complex(real, zeros_like(real)));
    expect_near(half, whole.slice(2, 0, half.size(2)), 1e-9);
  }
}

TEST_F(KernelsFftw, ARealTensorIsTransformedAsItsComplexForm) {
  for (std::vector<int64_t> sizes : {std::vector<int64_t>{3, 8}, {2, 5, 7}, {4, 1, 6}, {1, 9, 1}}) {
    Tensor x = randn(std::vector<SymInt>(sizes.begin(), sizes.end()), Dtype::f64);
    Tensor wide = complex(x, zeros_like(x));
    auto rank = static_cast<int64_t>(sizes.size());
    for (std::vector<int64_t> dims : {std::vector<int64_t>{-1}, {0}, {-1, 0}, {0, rank - 1}}) {
      std::vector<SymInt> places(dims.begin(), dims.end());
      for (int64_t norm : {0, 1, 2})
        expect_near(_fft_r2c(x, dims, norm, false), _fft_c2c(wide, places, norm, true), 1e-12);
    }
  }
}

TEST_F(KernelsFftw, WrongArgumentsAreNamed) {
  Tensor x = randn({2, 6});
  EXPECT_THAT(message_of([&] { fft_fft(x, 0); }), HasSubstr("at least 1 element"));
  EXPECT_THAT(message_of([&] { fft_fft(x, {}, 3); }), HasSubstr("3"));
  EXPECT_THAT(message_of([&] { fft_fft(x, {}, -1, "half"); }), HasSubstr("'half'"));
  EXPECT_THAT(message_of([&] { fft_rfft(complex(x, x)); }), HasSubstr("a real tensor"));
  EXPECT_THAT(message_of([&] { fft_fft(x.to(Dtype::f16)); }), HasSubstr("cast the input"));
  EXPECT_THAT(message_of([&] { fft_fftn(x, {}, std::vector<int64_t>{0, 0}); }), HasSubstr("once"));
}

}  // namespace
}  // namespace tenon
