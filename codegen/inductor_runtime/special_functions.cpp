// erfinv, digamma, lgamma and powers of integers.
//
// erfinv starts from the series near 0 or Winitzki's formula, which is within 0.5 %, and takes three
// steps of Halley's method, each of which triples the number of right digits.
// digamma is reflected to positive arguments, moved up to 10 by psi(x) = psi(x + 1) - 1/x, and
// there the asymptotic series is good to 1e-17. Limits are those of the host's primitives: digamma
// is infinite at 0, of the sign opposite to that of the 0, and NaN at negative integers;
// erfinv(+-1) is infinite. Reference: Abramowitz and Stegun, 6.3.5, 6.3.7 and 6.3.18.
#include "special_functions.h"

#include <cmath>
#include <limits>

namespace inductor {

namespace {

constexpr double pi = 3.14159265358979323846, half_root_pi = 0.88622692545275801365;

double erfinv_guess(double a) {
  if (a < 0.3) {
    double z = pi * a * a;
    return a * half_root_pi * (1 + z * (1.0 / 12 + z * (7.0 / 480 + z * (127.0 / 40320))));
  }
  double log_rest = std::log1p(-a) + std::log1p(a);
  double t = 2 / (pi * 0.147) + 0.5 * log_rest;
  return std::sqrt(std::sqrt(t * t - log_rest / 0.147) - t);
}

double digamma_of_positive(double x) {
  double sum = 0;
  for (; x < 10; x += 1) sum -= 1 / x;
  // Bernoulli numbers B(2k) over 2k, from k = 7 down.
  constexpr double terms[] = {1.0 / 12,  -691.0 / 32760, 1.0 / 132, -1.0 / 240,
                              1.0 / 252, -1.0 / 120,     1.0 / 12};
  double z = 1 / (x * x), series = 0;
  for (double term : terms) series = (series + term) * z;
  return sum + std::log(x) - 0.5 / x - series;
}

}  // namespace

double erfinv(double x) {
  double a = std::fabs(x);
  if (a == 1) return std::copysign(std::numeric_limits<double>::infinity(), x);
  if (!(a < 1)) return std::numeric_limits<double>::quiet_NaN();
  double y = erfinv_guess(a);
  for (int step = 0; step < 3; ++step) {
    double miss = a < 0.5 ? std::erf(y) - a : (1 - a) - std::erfc(y);
    double change = miss * half_root_pi * std::exp(y * y);
    y -= change / (1 + y * change);
  }
  return std::copysign(y, x);
}

double digamma(double x) {
  if (x == 0) return std::copysign(std::numeric_limits<double>::infinity(), -x);
  if (!(x < 0)) return digamma_of_positive(x);
  double part = x - std::nearbyint(x);  // in [-1/2, 1/2], exactly
  if (part == 0) return std::numeric_limits<double>::quiet_NaN();
  return digamma_of_positive(1 - x) - pi / std::tan(pi * part);
}

double lgamma(double x) {
  int sign;  // std::lgamma would write a global
  return ::lgamma_r(x, &sign);
}

int64_t integer_power(int64_t base, int64_t exponent) {
  if (exponent < 0) return base == 1 ? 1 : base == -1 ? (exponent % 2 ? -1 : 1) : 0;
  uint64_t out = 1;
  for (auto b = static_cast<uint64_t>(base); exponent; exponent >>= 1, b *= b)
    if (exponent & 1) out *= b;
  return static_cast<int64_t>(out);
}

}  // namespace inductor
