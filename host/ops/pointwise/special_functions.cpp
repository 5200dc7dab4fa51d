// Special functions by power series near zero and asymptotic or continued forms far away.
//
// Model: every function here has a series whose terms all have one sign (no cancellation) where
//   the argument is small, and an expansion that converges to full precision where it is large.
// Method: Bessel I: the ascending series to 25, Hankel's expansion beyond, where its smallest term
//   is below e^-50. erfcx: exp * erfc to 2, Laplace's continued fraction beyond. Incomplete gamma:
//   the series below a + 1, the continued fraction by Lentz's rule above; where a is large, Temme's
//   expansion around the normal distribution. Hurwitz zeta: Euler-Maclaurin from the tenth term;
//   below zero the terms on either side of zero are two zetas of positive arguments.
//   Quantiles: quotients of polynomials (Wichura).
// Cost: tens of terms an element, whatever its value; these are rare ops. Quantiles: 4 ns, in the
//   tails 15.
// Source: Abramowitz and Stegun, Handbook of Mathematical Functions, chapters 6, 7, 9, 23 and 26;
//   N. M. Temme, "The asymptotic expansion of the incomplete gamma functions", 1979.
#include "ops/pointwise/special_functions.h"

#include <cmath>
#include <limits>
#include <numbers>

namespace tenon::ops {

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();
constexpr double epsilon = std::numeric_limits<double>::epsilon();

// exp(-x) I_order(x) for x >= 0, order 0 or 1.
double bessel_ie(double x, int order) {
  if (std::isinf(x)) return 0;
  if (x <= 25) {
    double quarter = x * x / 4, term = order == 0 ? 1 : x / 2, sum = term;
    for (int k = 1; term > sum * epsilon / 4; ++k) {
      term *= quarter / (static_cast<double>(k) * (k + order));
      sum += term;
    }
    return std::exp(-x) * sum;
  }
  double mu = 4.0 * order * order, term = 1, sum = 1;
  for (int k = 1; k < 40 && std::fabs(term) > epsilon / 4; ++k) {
    term *= -(mu - (2.0 * k - 1) * (2.0 * k - 1)) / (8 * k * x);
    sum += term;
  }
  return sum / std::sqrt(2 * std::numbers::pi * x);
}

// ---- incomplete gamma functions; x > 0, a > 0

double gamma_factor(double a, double x) { return std::exp(a * std::log(x) - x - std::lgamma(a)); }

double lower_by_series(double a, double x) {
  double term = 1 / a, sum = term;
  for (double n = a + 1; term > sum * epsilon / 4; n += 1) {
    term *= x / n;
    sum += term;
  }
  return sum * gamma_factor(a, x);
}

double upper_by_fraction(double a, double x) {
  constexpr double tiny = 1e-300;
  double b = x + 1 - a, c = 1 / tiny, d = 1 / b, h = d;
  for (int i = 1; i < 100000; ++i) {
    double an = -i * (i - a);
    b += 2;
    d = an * d + b;
    if (std::fabs(d) < tiny) d = tiny;
    c = b + an / c;
    if (std::fabs(c) < tiny) c = tiny;
    d = 1 / d;
    h *= d * c;
    if (std::fabs(d * c - 1) < epsilon) break;
  }
  return h * gamma_factor(a, x);
}

// mu - log(1 + mu) without cancellation near zero.
double log_gap(double mu) {
  if (std::fabs(mu) > 0.1) return mu - std::log1p(mu);
  double power = mu * mu, sum = 0;
  for (int k = 2; k < 20; ++k, power *= -mu) sum += power / k;
  return sum;
}

// The share below (sign 1) or above (sign -1) x where a is large. The corrections only count where
// eta, the distance from the middle, is small: there both of their series converge quickly.
double share_by_normal(double a, double x, double sign) {
  constexpr double first[] = {-1.0 / 3,          1.0 / 12,           -2.0 / 135,       1.0 / 864,
                              3.527336860671e-4, -1.787551440329e-4, 3.919263178522e-5};
  constexpr double second[] = {-1.0 / 540, -1.0 / 288, 1.0 / 378, -9.902263374486e-4};
  double mu = (x - a) / a;
  double eta = std::copysign(std::sqrt(2 * log_gap(mu)), mu);
  double share = std::erfc(-sign * eta * std::sqrt(a / 2)) / 2;
  double density = std::exp(-a * eta * eta / 2) / std::sqrt(2 * std::numbers::pi * a);
  if (density == 0) return share;
  double correction = 0, power = 1;
  for (int k = 0; k < 7; ++k, power *= eta)
    correction += power * (first[k] + (k < 4 ? second[k] / a : 0));
  return share - sign * density * correction;
}

constexpr double large_shape = 1e4;

// Of the normal quantile, by p - 1/2 in the middle and by sqrt(-log p) in the tails: M. J. Wichura,
// "The Percentage Points of the Normal Distribution", algorithm AS 241, 1988; 16 digits.
constexpr double quantile_middle[] = {3.3871328727963666080e0, 1.3314166789178437745e2,
                                      1.9715909503065514427e3, 1.3731693765509461125e4,
                                      4.5921953931549871457e4, 6.7265770927008700853e4,
                                      3.3430575583588128105e4, 2.5090809287301226727e3};
constexpr double quantile_middle_divisor[] = {1,
                                              4.2313330701600911252e1,
                                              6.8718700749205790830e2,
                                              5.3941960214247511077e3,
                                              2.1213794301586595867e4,
                                              3.9307895800092710610e4,
                                              2.8729085735721942674e4,
                                              5.2264952788528545610e3};
constexpr double quantile_tail[] = {1.42343711074968357734e0,  4.63033784615654529590e0,
                                    5.76949722146069140550e0,  3.64784832476320460504e0,
                                    1.27045825245236838258e0,  2.41780725177450611770e-1,
                                    2.27238449892691845833e-2, 7.74545014278341407640e-4};
constexpr double quantile_tail_divisor[] = {1,
                                            2.05319162663775882187e0,
                                            1.67638483018380384940e0,
                                            6.89767334985100004550e-1,
                                            1.48103976427480074590e-1,
                                            1.51986665636164571966e-2,
                                            5.47593808499534494600e-4,
                                            1.05075007164441684324e-9};
constexpr double quantile_end[] = {6.65790464350110377720e0,  5.46378491116411436990e0,
                                   1.78482653991729133580e0,  2.96560571828504891230e-1,
                                   2.65321895265761230930e-2, 1.24266094738807843860e-3,
                                   2.71155556874348757815e-5, 2.01033439929228813265e-7};
constexpr double quantile_end_divisor[] = {1,
                                           5.99832206555887937690e-1,
                                           1.36929880922735805310e-1,
                                           1.48753612908506148525e-2,
                                           7.86869131145613259100e-4,
                                           1.84631831751005468180e-5,
                                           1.42151175831644588870e-7,
                                           2.04426310338993978564e-15};

double degree_seven(double x, const double (&c)[8]) {
  double sum = c[7];
  for (int i = 6; i >= 0; --i) sum = sum * x + c[i];
  return sum;
}

}  // namespace

double bessel_i0e(double x) { return bessel_ie(std::fabs(x), 0); }
double bessel_i1e(double x) { return std::copysign(bessel_ie(std::fabs(x), 1), x); }
double bessel_i0(double x) { return std::exp(std::fabs(x)) * bessel_i0e(x); }
double bessel_i1(double x) { return std::exp(std::fabs(x)) * bessel_i1e(x); }

double scaled_erfc(double x) {
  if (x < 2) return std::exp(x * x) * std::erfc(x);
  double rest = 0;
  for (int k = 120; k >= 1; --k) rest = 0.5 * k / (x + rest);
  return std::numbers::inv_sqrtpi / (x + rest);
}

double log_normal_share(double x) {
  double t = x / std::numbers::sqrt2;
  if (x < -1) return std::log(scaled_erfc(-t) / 2) - t * t;
  return std::log1p(-std::erfc(t) / 2);
}

double normal_quantile(double p) {
  if (std::isnan(p) || p < 0 || p > 1) return not_a_number;
  if (p == 0 || p == 1) return p == 0 ? -infinity : infinity;
  double q = p - 0.5;
  if (std::fabs(q) <= 0.425) {
    double z = 0.180625 - q * q;
    return q * degree_seven(z, quantile_middle) / degree_seven(z, quantile_middle_divisor);
  }
  double r = std::sqrt(-std::log(q < 0 ? p : 1 - p));
  double x =
      r <= 5 ? degree_seven(r - 1.6, quantile_tail) / degree_seven(r - 1.6, quantile_tail_divisor)
             : degree_seven(r - 5, quantile_end) / degree_seven(r - 5, quantile_end_divisor);
  return q < 0 ? -x : x;
}

namespace {

// s > 1, q > 0
double zeta_of_positive(double s, double q) {
  if (std::isinf(s)) return q > 1 ? 0 : q == 1 ? 1 : infinity;
  if (std::isinf(q)) return 0;
  // Bernoulli numbers B2, B4, ... over (2k)!.
  constexpr double terms[] = {1.0 / 12,           -1.0 / 720,     1.0 / 30240,
                              -1.0 / 1209600,     1.0 / 47900160, -691.0 / 1307674368000.0,
                              1.0 / 74724249600.0};
  constexpr int first = 10;
  double sum = 0;
  int n = 0;
  for (; n < first; ++n) sum += std::pow(q + n, -s);
  double at = q + n, power = std::pow(at, -s);
  sum += power * at / (s - 1) + power / 2;
  double rising = s;
  power /= at;
  for (int k = 0; k < 7; ++k) {
    sum += terms[k] * rising * power;
    rising *= (s + 2 * k + 1) * (s + 2 * k + 2);
    power /= at * at;
  }
  return sum;
}

}  // namespace

double hurwitz_zeta(double s, double q) {
  if (std::isnan(q) || !(s >= 1)) return not_a_number;
  if (s == 1) return infinity;
  if (q > 0) return zeta_of_positive(s, q);
  if (q == std::floor(q)) return infinity;
  if (std::isinf(s)) return infinity;
  if (s != std::floor(s)) return not_a_number;
  // Terms below zero are those from 1 - part upwards, up to the one at -q.
  double part = q - std::floor(q), sign = std::fmod(s, 2) == 0 ? 1 : -1;
  double below = zeta_of_positive(s, 1 - part) - zeta_of_positive(s, 1 - q);
  return zeta_of_positive(s, part) + sign * below;
}

double polygamma_of(int64_t n, double x) {
  // Reflection serves the negative arguments of the first derivative.
  if (n == 1 && x < 0.5) {
    double s = std::sin(std::numbers::pi * x);
    return std::numbers::pi * std::numbers::pi / (s * s) - hurwitz_zeta(2, 1 - x);
  }
  double order = static_cast<double>(n);
  double size = std::exp(std::lgamma(order + 1)) * hurwitz_zeta(order + 1, x);
  return n % 2 == 0 ? -size : size;
}

double lower_gamma(double a, double x) {
  if (std::isnan(a) || std::isnan(x) || a < 0 || x < 0) return not_a_number;
  if (a == 0) return x > 0 ? 1 : not_a_number;
  if (x == 0) return 0;
  if (std::isinf(a)) return std::isinf(x) ? not_a_number : 0;
  if (std::isinf(x)) return 1;
  if (a > large_shape) return share_by_normal(a, x, 1);
  return x < a + 1 ? lower_by_series(a, x) : 1 - upper_by_fraction(a, x);
}

double upper_gamma(double a, double x) {
  if (std::isnan(a) || std::isnan(x) || a < 0 || x < 0) return not_a_number;
  if (a == 0) return x > 0 ? 0 : not_a_number;
  if (x == 0) return 1;
  if (std::isinf(a)) return std::isinf(x) ? not_a_number : 1;
  if (std::isinf(x)) return 0;
  if (a > large_shape) return share_by_normal(a, x, -1);
  return x < a + 1 ? 1 - lower_by_series(a, x) : upper_by_fraction(a, x);
}

}  // namespace tenon::ops
