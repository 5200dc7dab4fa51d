// What emitted code calls: erfinv, digamma and lgamma, powers of integers, and functions of libm.
//
// The names begin with tenon_, so that no optimiser takes them for functions of libm, which may
// write errno; those without are what the code generator itself asks for.
//
// erfinv starts from the series near 0 or Winitzki's formula, which is within 0.5 %, and takes two
// steps of Halley's method (three for double), each of which triples the number of right digits.
// digamma is reflected to positive arguments, moved up to 10 by psi(x) = psi(x + 1) - 1/x, and
// there the asymptotic series is good to 1e-17. Limits are those of the host's primitives: digamma
// is infinite at 0, of the sign opposite to that of the 0, and NaN at negative integers;
// erfinv(+-1) is infinite. Reference: Abramowitz and Stegun, 6.3.5, 6.3.7 and 6.3.18.
#include "runtime_symbols.h"

#include <cmath>
#include <cstdint>
#include <cstring>
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

template <int steps>
double erfinv(double x) {
  double a = std::fabs(x);
  if (a == 1) return std::copysign(std::numeric_limits<double>::infinity(), x);
  if (!(a < 1)) return std::numeric_limits<double>::quiet_NaN();
  double y = erfinv_guess(a);
  for (int step = 0; step < steps; ++step) {
    double miss = a < 0.5 ? std::erf(y) - a : (1 - a) - std::erfc(y);
    double change = miss * half_root_pi * std::exp(y * y);
    y -= change / (1 + y * change);
  }
  return std::copysign(y, x);
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

template <double (*f)(double)>
float in_float(float x) {
  return static_cast<float>(f(x));
}

int64_t integer_power(int64_t base, int64_t exponent) {
  if (exponent < 0) return base == 1 ? 1 : base == -1 ? (exponent % 2 ? -1 : 1) : 0;
  uint64_t out = 1;
  for (auto b = static_cast<uint64_t>(base); exponent; exponent >>= 1, b *= b)
    if (exponent & 1) out *= b;
  return static_cast<int64_t>(out);
}

template <class F>
RuntimeSymbol symbol(const char* name, F* function) {
  return {name, reinterpret_cast<void*>(function)};
}

#define TENON_LIBM(name) symbol<double(double)>("tenon_inductor_" #name "_f64", std::name)
#define TENON_LIBM_2(name) symbol<double(double, double)>("tenon_inductor_" #name "_f64", std::name)
const RuntimeSymbol symbols[] = {
    symbol("tenon_inductor_erfinv_f32", in_float<erfinv<2>>),
    symbol("tenon_inductor_digamma_f32", in_float<digamma>),
    symbol("tenon_inductor_lgamma_f32", in_float<lgamma>),
    symbol("tenon_inductor_erfinv_f64", erfinv<3>), symbol("tenon_inductor_digamma_f64", digamma),
    symbol("tenon_inductor_lgamma_f64", lgamma), TENON_LIBM(exp2), TENON_LIBM(expm1),
    TENON_LIBM(log2), TENON_LIBM(log10), TENON_LIBM(log1p), TENON_LIBM(sin), TENON_LIBM(cos),
    TENON_LIBM(tan), TENON_LIBM(asin), TENON_LIBM(acos), TENON_LIBM(atan), TENON_LIBM(sinh),
    TENON_LIBM(cosh), TENON_LIBM(asinh), TENON_LIBM(acosh), TENON_LIBM(atanh), TENON_LIBM(erfc),
    TENON_LIBM_2(pow), TENON_LIBM_2(atan2), symbol("tenon_integer_power", integer_power),
    symbol<double(double, double)>("tenon_real_fmod", std::fmod),
    // Those that the code generator itself calls where the processor lacks the instruction.
    symbol<float(float, float, float)>("fmaf", std::fma),
    symbol<double(double, double, double)>("fma", std::fma),
    symbol<float(float)>("rintf", std::rint), symbol<double(double)>("rint", std::rint),
    symbol<float(float)>("floorf", std::floor), symbol<double(double)>("floor", std::floor),
    symbol<float(float)>("ceilf", std::ceil), symbol<double(double)>("ceil", std::ceil),
    symbol<float(float)>("truncf", std::trunc), symbol<double(double)>("trunc", std::trunc),
    symbol("memset", std::memset), symbol("memcpy", std::memcpy), symbol("memmove", std::memmove)};
#undef TENON_LIBM
#undef TENON_LIBM_2

}  // namespace

std::span<const RuntimeSymbol> runtime_symbols() { return symbols; }

}  // namespace inductor
