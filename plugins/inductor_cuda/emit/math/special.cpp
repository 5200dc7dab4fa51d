// erfc, erfinv, lgamma and digamma of doubles.
//
// erfc(a) = exp(-a a) / (1 + 2 a) times a function that is smooth in (a - 3) / (a + 3), of which we
// have 28 terms of Chebyshev's series. erfinv, lgamma and digamma follow the host's primitives:
// erfinv takes three steps of Halley's method from the series near 0 or Winitzki's formula; the other
// two are moved up to 10 and more, where the asymptotic series are good to 1e-17, and are reflected
// for negative arguments.
// Reference: Abramowitz and Stegun, 6.1.41, 6.3.5, 6.3.7 and 6.3.18.
#include "real_functions.h"

#include <lanes/vector_math_formulas.h>

#include <limits>
#include <numbers>

namespace inductor_cuda {

using namespace lanes;

namespace {

constexpr double pi = std::numbers::pi, half_root_pi = 0.88622692545275801365;
constexpr double erfc_terms[] = {
    0x1.2d74bda92af4ep+0,  0x1.5edf9ce74f65ep-8,   -0x1.801abe05df685p-4,  0x1.bd5ede288613bp-5,
    -0x1.36e99d8ff90f7p-6, 0x1.23dc174a04d86p-8,   -0x1.4c2a11331e0e4p-11, 0x1.285081fb7471ep-16,
    0x1.aee3ed67adcfbp-17, -0x1.0d67d92ebb16fp-19, -0x1.84299dc44cfe1p-23, 0x1.44433d928dccap-24,
    0x1.032a101f63366p-29, -0x1.7304e1f9377d0p-29, -0x1.00dc1e28761e4p-36, 0x1.c7b5541debf46p-34,
    0x1.9f608af23def6p-40, -0x1.2cfdb55efc61bp-38, -0x1.d433281a86cb9p-43, 0x1.985a49637781fp-43,
    0x1.638030f9632e2p-46, -0x1.06936a9e2323bp-47, -0x1.b53df2ab9d8b7p-50, 0x1.0f1968e597de2p-52,
    0x1.cd7350f20ad1ap-54, -0x1.2f98d06214628p-59, -0x1.9dd79d26cbb94p-58, -0x1.476e26ec7cba4p-61};

/// c[0] + c[1] T1(u) + c[2] T2(u) + ..., by Clenshaw's rule.
Lanes chebyshev(Lanes u, std::span<const double> c) {
  Lanes twice = u + u, before = u.number(0), last = u.number(c.back());
  for (size_t i = c.size() - 1; i-- > 1;) {
    Lanes next = fma(twice, last, c[i] - before);
    before = last, last = next;
  }
  return fma(u, last, c[0] - before);
}

/// Of a >= 0.
Lanes upper_erfc(Lanes a) {
  Lanes c = at_most(a, 28), square = c * c, square_low = fma(c, c, -square);
  Lanes e = exp_f64(-square);
  e = fma(e, -square_low, e);
  Lanes series = chebyshev((c - 3.0) / (c + 3.0), erfc_terms);
  return e * series / fma(c, 2.0, 1.0);
}

Lanes sine_of_pi(Lanes x) { return real_sin(x * pi); }

constexpr int most_steps = 10;

Lanes digamma_of_positive(Lanes x) {
  // Bernoulli numbers B(2k) over 2k, from k = 7 down.
  constexpr double terms[] = {1.0 / 12,  -691.0 / 32760, 1.0 / 132, -1.0 / 240,
                              1.0 / 252, -1.0 / 120,     1.0 / 12};
  Lanes sum = x.number(0);
  for (int i = 0; i < most_steps; ++i) {
    Lanes is_low = x < 10.0;
    sum = sum - select(is_low, 1.0 / x, x.number(0));
    x = x + select(is_low, x.number(1), x.number(0));
  }
  Lanes z = 1.0 / (x * x), series = x.number(0);
  for (double term : terms) series = (series + term) * z;
  return sum + log_f64(x) - 0.5 / x - series;
}

// Stirling's series, with the product of the steps taken away.
Lanes lgamma_of_positive(Lanes x) {
  constexpr double terms[] = {1.0 / 12,   -1.0 / 360,      1.0 / 1260, -1.0 / 1680,
                              1.0 / 1188, -691.0 / 360360, 1.0 / 156};
  constexpr double half_log_two_pi = 0x1.d67f1c864beb5p-1;
  Lanes steps = x.number(1);
  for (int i = 0; i < most_steps; ++i) {
    Lanes is_low = x < 10.0;
    steps = steps * select(is_low, x, x.number(1));
    x = x + select(is_low, x.number(1), x.number(0));
  }
  Lanes inverse = 1.0 / x;
  Lanes series = inverse * polynomial(inverse * inverse, terms);
  Lanes main = fma(x - 0.5, log_f64(x) - 1.0, x.number(half_log_two_pi - 0.5));
  return main + series - log_f64(steps);
}

Lanes guess_of_erfinv(Lanes a) {
  Lanes z = a * a * pi;
  Lanes near =
      a * half_root_pi * (z * ((z * ((z * (127.0 / 40320)) + 7.0 / 480)) + 1.0 / 12) + 1.0);
  Lanes log_rest = real_log1p(-a) + real_log1p(a);
  Lanes t = log_rest * 0.5 + 2 / (pi * 0.147);
  Lanes far = sqrt(sqrt(t * t - log_rest * (1 / 0.147)) - t);
  return select(a < 0.3, near, far);
}

}  // namespace

Lanes real_erfc(Lanes x) {
  Lanes a = abs(x), upper = upper_erfc(a);
  // Near 0 the series' error would be one of 1.
  Lanes out = select(x < 0.5, 1.0 - erf_f64(x), upper);
  return select(is_nan(x), x, select(x < -28.0, x.number(2), out));
}

Lanes real_erfinv(Lanes x) {
  Lanes a = abs(x), y = guess_of_erfinv(a);
  for (int step = 0; step < 3; ++step) {
    Lanes miss = select(a < 0.5, erf_f64(y) - a, (1.0 - a) - real_erfc(y));
    Lanes change = miss * half_root_pi * exp_f64(y * y);
    y = y - change / (y * change + 1.0);
  }
  Lanes inside = copysign(y, x);
  Lanes out = select(a < 1.0, inside, not_a_number(x));
  return select(a == 1.0, copysign(infinite(x), x), out);
}

Lanes real_lgamma(Lanes x) {
  Lanes a = abs(x), of_positive = lgamma_of_positive(a);
  Lanes part = x - nearest(x);  // in [-1/2, 1/2], exactly
  Lanes log_product = log_f64(abs(sine_of_pi(part))) + log_f64(a);
  Lanes reflected = 0x1.250d048e7a1bdp+0 /* log pi */ - log_product - of_positive;
  Lanes out = select(x < 0.0, reflected, of_positive);
  Lanes is_pole = ((x < 0.0) & (part == 0.0)) | (x == 0.0);
  Lanes is_infinite = is_pole | (a == infinite(a));
  return select(is_infinite, infinite(x), select(is_nan(x), x, out));
}

Lanes real_digamma(Lanes x) {
  Lanes is_negative = x < 0.0;
  Lanes part = x - nearest(x);
  Lanes of_positive = digamma_of_positive(select(is_negative, 1.0 - x, x));
  Lanes reflected = of_positive - pi / real_tan(part * pi);
  Lanes out = select(is_negative, select(part == 0.0, not_a_number(x), reflected), of_positive);
  return select(x == 0.0, copysign(infinite(x), -x), out);
}

}  // namespace inductor_cuda
