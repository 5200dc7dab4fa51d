// Where values are easily wrong: reductions over no dimension, sizes that the body fixes, factors
// that change, derivatives at kinks and poles, numbers rounded to narrow elements.
#include "program.h"

#include <cmath>
#include <limits>

namespace tenon::programs {
namespace {

TENON_PROGRAM(TruthOverNoDimensionIsTheTruthOfEach, 4) {
  auto f = run.compile([](const Tensor& x) {
    return std::vector<Tensor>{all(x, IntList{}, true), any(x, IntList{}, false), any(x)};
  });
  for (const Tensor& x : {row({0, 1, 2, 0}), tensor({0, 3}), zeros({2, 2}, Dtype::bool_)})
    for (const Tensor& t : f(x)) run.log(t);
}

TENON_PROGRAM(EqualSizesAreCopiedWhateverTheScale, 8) {
  auto fixed = run.compile([](const Tensor& x) {
    std::vector<double> scales = {2.0, 1.25};
    Tensor y = upsample_nearest2d(x, OptSymIntList(), OptDoubleList(scales));
    return x.size(3) == 2 ? y + 1 : y;
  });
  auto given = run.compile([](const Tensor& x, int64_t n) {
    return upsample_nearest1d(x, SymIntList({SymInt(n)}), 1.25);
  });
  for (int64_t n : {2, 3, 4, 5, 6}) {
    run.log(fixed(halves({1, 1, 2, n})));
    Tensor x = halves({1, 2, n}).requires_grad_();
    for (int64_t more : {0, 1}) {
      Tensor y = given(x, n + more);
      y.sum().backward();
      run.log(y, x.grad());
    }
    Tensor doubled = given(x, 2 * n);
    run.log(doubled);
  }
}

// ---- factors that change

TENON_PROGRAM(AFactorTakesTheTypeOfWhatItScales, 32) {
  double real = 0;
  int64_t whole = 0;
  auto sums = run.compile([&](const Tensor& x) {
    Tensor b = x.unsqueeze(0);
    return addbmm(x, b, b, Number(real), Number(real));
  });
  auto outer_products =
      run.compile([&](const Tensor& x) { return addr(x, x[0], x[1], whole, Number(whole)); });
  auto reals =
      run.compile([&](const Tensor& x) { return addr(x, x[0], x[1], Number(real), Number(real)); });
  Tensor integers = tensor({{1, 0}, {1, 2}}), numbers = row({1, 0, 1, 2}).reshape({2, 2});
  for (double n : {1.0, 2.5, 3.5, 0.5, 2.0}) {
    real = n, whole = static_cast<int64_t>(n);
    run.log(sums(integers), outer_products(integers), sums(numbers), reals(numbers));
    run.log(outer_products(integers.to(Dtype::bool_)));
    run.log(view_as_real(reals(complex(numbers, numbers))));
    run.log_error([&] { run.log(reals(integers)); });
  }
}

TENON_PROGRAM(IntegersAreAddedWithAWholeFactor, 8) {
  double alpha = 0;
  auto f = run.compile([&](const Tensor& x, const Tensor& i) {
    return index_add(x, 0, i, x.slice(0, 0, 1), Number(alpha));
  });
  for (double n : {1.0, 1.5, 2.0, 3.75}) {
    alpha = n;
    run.log(f(tensor({3, 5}), tensor({1})), f(row({3, 5}), tensor({1})));
  }
}

TENON_PROGRAM(NoRealElementHoldsAComplexValue, 4) {
  auto f = run.compile([](const Tensor& x, const Tensor& v) { return masked_fill(x, x.gt(0), v); });
  Tensor value = complex(tensor(3.0F), tensor(4.0F));
  run.log_error([&] { run.log(f(row({1, -1}), value)); });
  run.log(f(row({1, -1}), tensor(3.0F)));
}

TENON_PROGRAM(AnExponentThatChangesTakesRoots, 8) {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  double exponent = 0;
  auto f = run.compile([&](const Tensor& x) { return 1 / pow(x, Number(exponent)); });
  for (double e : {0.75, 0.5, -0.5, 2.0, -0.5, 0.5}) {
    exponent = e;
    run.log(f(row({-0.0F, 0, 4, infinity})), f(row({-infinity, -4})).isnan());
  }
}

// ---- derivatives where formulas have kinks and poles

template <class F>
void log_gradients(Run& run, const F& f, const Tensor& x, const Tensor& y) {
  Tensor a = x.clone().requires_grad_(), b = y.clone().requires_grad_();
  Tensor out = f(a, b);
  out.sum().backward();
  run.log(out, a.grad());
  if (b.grad().defined()) run.log(b.grad());
}

TENON_PROGRAM(LogisticLossesHaveASlopeAtZero, 4) {
  auto single = run.compile([](const Tensor& x, const Tensor& t) { return log_sigmoid(x) * t; });
  auto loss = run.compile([](const Tensor& x, const Tensor& t) {
    return binary_cross_entropy_with_logits(x, t, {}, {}, 0);
  });
  Tensor x = row({0, -0.0, 1, -2}), t = row({0, 1, 0.5, 0.25});
  log_gradients(run, single, x, t);
  log_gradients(run, loss, x, t);
}

TENON_PROGRAM(CrossEntropyOfCertaintiesHasAGradient, 12) {
  Tensor p = row({0, 1, 0, 1, 0.5, 0.25}), t = row({0, 1, 0.5, 0.5, 0.25, 1});
  for (int64_t reduction : {0, 1, 2}) {
    auto f = run.compile([=](const Tensor& x, const Tensor& target) {
      return binary_cross_entropy(x, target, {}, reduction);
    });
    log_gradients(run, f, p, t);
    auto by_weight = run.compile([=](const Tensor& x, const Tensor& w) {
      return binary_cross_entropy(sigmoid(x), x * 0, w, reduction);
    });
    log_gradients(run, by_weight, row({0, 1, -1}), row({1, 2, 0.5}));
  }
  auto spread = run.compile([](const Tensor& x, const Tensor& target) {
    return binary_cross_entropy(x.unsqueeze(1), target, {}, 1);
  });
  log_gradients(run, spread, row({0.25, 0.75}), row({0, 1, 0.5}));
}

TENON_PROGRAM(ProductsWithLogarithmsHaveASlopeAtZero, 8) {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  auto with_log = run.compile([](const Tensor& x, const Tensor& y) { return xlogy(x, y); });
  auto with_log1p =
      run.compile([](const Tensor& x, const Tensor& y) { return special_xlog1py(x, y); });
  auto by_number = run.compile([](const Tensor& x, const Tensor& y) {
    return xlogy(x, 2) + xlogy(x, 0) * y + special_xlog1py(x, 3);
  });
  Tensor x = row({0, 0, 0, 2, -1}), y = row({2, infinity, 0.5, 4, 2});
  log_gradients(run, with_log, x, y);
  log_gradients(run, with_log1p, x, y);
  log_gradients(run, by_number, row({0, 0}), row({0, 1}));
}

TENON_PROGRAM(EqualOperandsShareAGradient, 8) {
  auto sums = run.compile([](const Tensor& x, const Tensor& y) { return logaddexp2(x, y); });
  log_gradients(run, sums, row({0, 1, 3}), row({0, 2, 3}));
  auto angles = run.compile([](const Tensor& y, const Tensor& x) { return atan2(y, x); });
  log_gradients(run, angles, row({0, -0.0, 1, 0}), row({0, 0, 0, -1}));
}

// ---- numbers in narrow elements

TENON_PROGRAM(AFillIsRoundedToItsElements, 8) {
  auto f = run.compile([](const Tensor& x) {
    Tensor y = x.clone();
    y.fill_(0.3);
    return std::vector<Tensor>{full_like(x, 0.1).to(Dtype::f32) + 0, y.to(Dtype::f32) * 2,
                               full_like(x, 257).to(Dtype::f32) + 0};
  });
  for (Dtype dtype : {Dtype::bf16, Dtype::f16, Dtype::f32})
    for (const Tensor& t : f(row({1, 2}).to(dtype))) run.log(t);
}

TENON_PROGRAM(AFillIsWhatItsElementsHold, 32) {
  std::vector<std::pair<double, int64_t>> numbers = {
      {0.1, -1}, {0.3, 200}, {2.75, 70000}, {3e5, (int64_t{1} << 33) + 5}, {-1e300, -300}};
  for (Dtype dtype : {Dtype::u8, Dtype::i8, Dtype::i16, Dtype::i32, Dtype::i64, Dtype::f16,
                      Dtype::bf16, Dtype::f32}) {
    auto f = run.compile([](const Tensor& x, double real, int64_t whole) {
      Tensor y = x.clone();
      y.fill_(whole);
      Tensor off = (full_like(x, real).to(Dtype::f64) - real) * 1e9;
      return std::vector<Tensor>{off, full_like(x, whole) / 2.0, y.to(Dtype::f32) + 0,
                                 full_like(x, whole).sum(), full_like(x, real) * row({1, 2})};
    });
    for (auto [real, whole] : numbers)
      for (const Tensor& t : f(row({1, 2}).to(dtype), real, whole)) run.log(t);
  }
}

TENON_PROGRAM(ARealNumberThatNoIntegerHoldsIsTheLowestOne, 8) {
  auto f = run.compile([](const Tensor& x, double d) {
    return std::pair(full_like(x, d), full_like(x, d).clamp(-1, 100000));
  });
  for (double d : {1e10, std::numeric_limits<double>::quiet_NaN(), 2.5, -1e300, 7.0}) {
    auto [filled, bounded] = f(tensor({1, 2}).to(Dtype::i32), d);
    run.log(filled, bounded);
  }
}

TENON_PROGRAM(ARealNumberAmongIntegersHasToFit, 32) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  auto sums = run.compile([](const Tensor& x, double d) { return addcmul(x, x, x, d); });
  auto above = run.compile([](const Tensor& x, double d) { return threshold(x, d, 7.0); });
  auto within = run.compile([](const Tensor& x, double d) { return hardtanh(x, -1, d); });
  auto never = run.compile([](const Tensor& x) { return threshold(x, -infinity, 7.0); });
  for (Dtype dtype : {Dtype::i32, Dtype::i64}) {
    Tensor x = tensor({1, -2, 3}).to(dtype);
    for (double d : {infinity, 2.0, 1.5, -infinity, 3.0, std::nan(""), 1e17, 4.0}) {
      run.log_error([&] { run.log(sums(x, d)); });
      run.log_error([&] { run.log(above(x, d)); });
      run.log_error([&] { run.log(within(x, d)); });
    }
    run.log_error([&] { run.log(never(x)); });
  }
}

TENON_PROGRAM(CodeForOneZeroIsNotForTheOther, 32) {
  constexpr float nan = std::numeric_limits<float>::quiet_NaN();
  auto given = run.compile([](const Tensor& x, double d) { return nan_to_num(x, d); });
  auto made = run.compile([](const Tensor& x, double d) { return nan_to_num(x, d * 2); });
  for (double d : {2.0, 3.0, -0.0, 0.0, -0.0, 4.0, 1e-310, 0.0, -0.0})
    run.log(1 / given(row({nan, 1}), d), 1 / made(row({nan, 1}), d));
}

TENON_PROGRAM(StrictCodeRoundsDenormalNumbersAndKeepsSigns, 8) {
  Options strict;
  if (run.backend() == "inductor") strict.options = {{"numerics", "'strict'"}};
  auto signs = run.compile([](const Tensor& x) { return signbit(x - 1); }, strict);
  auto small = run.compile([](const Tensor& x) { return std::pair(x.abs(), x * 0.5); }, strict);
  run.log(signs(row({-2.5}).to(Dtype::bf16)), signs(tensor(-2.5F).to(Dtype::bf16)));
  auto [sizes, halved] = small(row({-1e-39, 9e-41, 2e-38}).to(Dtype::bf16));
  run.log(sizes.to(Dtype::f32) * 1e38, halved.to(Dtype::f32) * 1e38);
}

// One op a callable: code rounds the results of several only once.
TENON_PROGRAM(NumbersAreRoundedToTheHalvesTheyMeet, 64) {
  auto sum = run.compile([](const Tensor& x, double d) { return x + d; });
  auto rest = run.compile([](const Tensor& x, double d) { return d - x; });
  auto scaled = run.compile([](const Tensor& x, double d) { return add(x, x, d); });
  auto power = run.compile([](const Tensor& x, double d) { return x.pow(d); });
  auto same = run.compile([](const Tensor& x, double d) { return x == d; });
  auto known = run.compile([](const Tensor& x) { return std::pair(x + 0.1, x.remainder(0.3)); });
  for (Dtype dtype : {Dtype::f16, Dtype::bf16}) {
    Tensor x = row({0.1F, 0.3F, 1.7F, 40.5F}).to(dtype);
    for (double d : {0.1, 0.3, 1.7, 0.7})
      run.log(sum(x, d).to(Dtype::f32), rest(x, d).to(Dtype::f32), scaled(x, d).to(Dtype::f32),
              power(x, d).to(Dtype::f32), same(x, d));
    auto [more, left] = known(x);
    run.log(more.to(Dtype::f32), left.to(Dtype::f32));
  }
}

// ---- gradients where formulas end

template <class F>
void log_gradients(Run& run, const Tensor& at, F function) {
  auto f = run.compile(function);
  for (Dtype dtype : {Dtype::f32, Dtype::f64}) {
    Tensor x = at.to(dtype).detach().requires_grad_();
    Tensor y = f(x);
    y.sum().backward();
    run.log(y, x.grad());
  }
}

TENON_PROGRAM(GradientsOutsideOfAnInterval, 16) {
  const float infinity = std::numeric_limits<float>::infinity();
  Tensor x = row({-infinity, -1, 0, 0.25, 1, 1.5, infinity, std::nanf("")});
  log_gradients(run, x, [](const Tensor& t) { return t.logit(); });
  log_gradients(run, x, [](const Tensor& t) { return t.logit(0.25); });
  log_gradients(run, x, [](const Tensor& t) { return special_entr(t); });
  log_gradients(run, x * 3.0, [](const Tensor& t) { return hardswish(t); });
  log_gradients(run, x, [](const Tensor& t) { return softshrink(t, 0.25); });
  log_gradients(run, x, [](const Tensor& t) { return t.clamp_min(0.25) + t.clamp_max(0.25); });
}

TENON_PROGRAM(FarToTheLeftAPolygammaIsThatOfTheKernel, 8) {
  Tensor x = row({-2, -0.5, -1e30F, -std::numeric_limits<float>::infinity(), 0.5, 3});
  log_gradients(run, x, [](const Tensor& t) { return polygamma(1, t); });
  log_gradients(run, x, [](const Tensor& t) { return digamma(t); });
}

// ---- matrices without an inverse

TENON_PROGRAM(ASingularMatrixHasCofactors, 24) {
  auto f = run.compile([](const Tensor& x) { return linalg_det(x); });
  Tensor regular = row({2, 1, 1, 3}).reshape({2, 2}), rank_1 = row({1, 2, 2, 4}).reshape({2, 2});
  for (const Tensor& matrix :
       {rank_1, regular, stack({rank_1, regular, zeros({2, 2})}), zeros({1, 1}), zeros({0, 2, 2}),
        row({1, 2, 3, 4, 5, 6, 7, 8, 9}).reshape({3, 3}), row({0, 1, 0, 0}).reshape({2, 2})}) {
    Tensor x = matrix.detach().requires_grad_();
    Tensor y = f(x);
    y.sum().backward();
    run.log(y, (x.grad() * 1024.0).round());
  }
}

TENON_PROGRAM(TheLogarithmOfNoDeterminantHasAPole, 8) {
  auto f = run.compile([](const Tensor& x) { return std::get<1>(linalg_slogdet(x)); });
  for (const Tensor& matrix : {row({1, 2, 2, 4}), row({2, 0, 0, 4}), row({0, 0, 0, 0})}) {
    Tensor x = matrix.reshape({2, 2}).requires_grad_();
    Tensor y = f(x);
    y.backward();
    run.log(y, x.grad());
  }
}

TENON_PROGRAM(AMissingGradientIsToldWhereItIsAskedFor, 8) {
  auto f = run.compile([](const Tensor& x) { return std::get<1>(linalg_qr(x, "r")); });
  auto complete =
      run.compile([](const Tensor& x) { return std::get<1>(linalg_qr(x, "complete")); });
  Tensor x = row({3, 0, 4, 0, 0, 1}).reshape({3, 2}).requires_grad_();
  Tensor y = f(x), z = complete(x);
  run.log(y.abs().round(), z.abs().round(), y.requires_grad());
  run.log_error([&] { y.sum().backward(); });
  run.log_error([&] { z.sum().backward(); });
  auto beside = run.compile(
      [](const Tensor& t) { return std::pair(std::get<1>(linalg_qr(t, "r")), t * 2.0); });
  beside(x).second.sum().backward();
  run.log(x.grad());
}

// ---- second names of ops that write

TENON_PROGRAM(ASecondNameMayWriteWhatItsDerivativeReads, 16) {
  auto f = run.compile([](const Tensor& x, const Tensor& w) {
    Tensor angle = x * 2.0, quotient = x * 2.0, sine = x * 0.5, size = x * 3.0;
    angle.arctan2_(w);
    quotient.divide_(w);
    sine.arcsin_();
    size.absolute_();
    return angle + quotient + sine + size;
  });
  Tensor x = row({0.5, -1}).requires_grad_(), w = row({2, 4}).requires_grad_();
  for (int step = 0; step < 3; ++step) f(x, w).sum().backward();
  run.log(x.grad(), w.grad());
}

}  // namespace
}  // namespace tenon::programs
