// Special functions of one or two doubles that the C library lacks.
#pragma once

#include <cstdint>

namespace tenon::ops {

/// exp(-|x|) I0(x) and exp(-|x|) I1(x), the scaled modified Bessel functions of the first kind.
double bessel_i0e(double x);
double bessel_i1e(double x);
double bessel_i0(double x);
double bessel_i1(double x);

/// exp(x^2) erfc(x).
double scaled_erfc(double x);
/// Logarithm of the normal distribution's share below x, and the x with the share p below it.
double log_normal_share(double x);
double normal_quantile(double p);

/// Hurwitz's zeta: the sum of (q + k)^-s over k >= 0.
double hurwitz_zeta(double s, double q);
/// The n-th derivative of digamma, n >= 0.
double polygamma_of(int64_t n, double x);

/// The lower and the upper incomplete gamma function of order a, divided by gamma(a).
double lower_gamma(double a, double x);
double upper_gamma(double a, double x);

}  // namespace tenon::ops
