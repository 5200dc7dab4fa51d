// Exponentials and logarithms of doubles, and the hyperbolic functions.
//
// Method: expm1 is 2^n (exp(r) - 1) + (2^n - 1), log1p the logarithm of 1 + x with what rounding took
// from that sum as a correction; the hyperbolic functions stand on these two, so that they keep their
// digits near 0. Logarithms to other bases take the exponent as it is, and the logarithm of a
// mantissa near 1 times a factor in two parts.
#include "real_functions.h"

#include <lanes/vector_math_formulas.h>

#include <limits>

namespace inductor_cuda {

using namespace lanes;

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double ln2 = 0x1.62e42fefa39efp-1, ln2_low = 0x1.abc9e3b39803fp-56;

/// x = m 2^k; what log_limits() leaves out is anything.
Split parts_of(Lanes x) {
  return split_real(select(x > 0.0, at_most(x, 0x1.fffffffffffffp1023), x.number(1)));
}

/// exp(a) / 2 of a >= 0, also where exp(a) is infinite.
Lanes half_exponential(Lanes a) {
  Lanes root = exp_f64(a * 0.5);
  return root * 0.5 * root;
}

}  // namespace

Lanes real_exp2(Lanes x) {
  Lanes c = at_most(at_least(x, -1080), 1025);
  constexpr double integer_place = 0x1.8p52;
  Lanes shifted = c + integer_place, n = shifted - integer_place, f = c - n;
  Lanes r = f * ln2, r_low = fma(f, ln2, -r) + f * ln2_low;
  Lanes p = expm1_near_zero(r) + r_low + 1.0;
  return scaled(p, {r, n, shifted}, x < 0.0);
}

Lanes real_expm1(Lanes x) {
  constexpr double far = 40;  // exp(-40) is less than half an ulp of 1, and 1 of exp(40)
  ExpArgument argument = exp_argument(at_most(at_least(x, -far), far));
  Lanes power = power_of_two(argument), y = expm1_near_zero(argument.r), less = power - 1.0;
  Lanes near = fma(power, y, less);
  Lanes beyond = select(x > 0.0, exp_f64(x), x.number(-1));
  Lanes out = select(abs(x) < far, near, beyond);
  return select((x == 0.0) | is_nan(x), x, out);
}

Lanes real_log1p(Lanes x) {
  Lanes u = x + 1.0, lost = x - (u - 1.0);
  Lanes is_ordinary = (u > 0.0) & (u < infinity);
  Lanes out = log_f64(u) + choose(is_ordinary, lost / u, 0);
  return select(x == 0.0, x, out);
}

Lanes real_log2(Lanes x) {
  constexpr double inverse = 0x1.71547652b82fep+0, inverse_low = 0x1.777d0ffda0d24p-56;
  Split parts = parts_of(x);
  Lanes l = log_f64(parts.m);
  return log_limits(x, fma(l, inverse, fma(l, inverse_low, parts.k)));
}

Lanes real_log10(Lanes x) {
  constexpr double inverse = 0x1.bcb7b1526e50ep-2, inverse_low = 0x1.95355baaafad3p-57;
  constexpr double of_two = 0x1.34413509p-2,
                   of_two_low = 0x1.ef3fde623e256p-35;  // its first 32 bits
  Split parts = parts_of(x);
  Lanes l = log_f64(parts.m);
  Lanes low = fma(parts.k, of_two_low, l * inverse_low);
  return log_limits(x, fma(parts.k, of_two, fma(l, inverse, low)));
}

Lanes real_sinh(Lanes x) {
  Lanes a = abs(x), t = real_expm1(at_most(a, 22));
  Lanes near = (t + t / (t + 1.0)) * 0.5;
  return copysign(select(a < 22, near, half_exponential(a)), x);
}

Lanes real_cosh(Lanes x) {
  Lanes a = abs(x), e = exp_f64(at_most(a, 22));
  return select(a < 22, fma(e, 0.5, 0.5 / e), half_exponential(a));
}

Lanes real_asinh(Lanes x) {
  Lanes a = abs(x), c = at_most(a, 0x1p28);
  Lanes root = sqrt(fma(c, c, 1.0));
  Lanes near = real_log1p(c + c * c / (root + 1.0));
  return copysign(select(a < 0x1p28, near, log_f64(a) + ln2), x);
}

Lanes real_acosh(Lanes x) {
  Lanes t = at_most(x, 0x1p28) - 1.0;
  Lanes near = real_log1p(t + sqrt(t * (t + 2.0)));
  near = select(x < 1.0, not_a_number(x), near);
  return select(x >= 0x1p28, log_f64(x) + ln2, near);
}

Lanes real_atanh(Lanes x) {
  Lanes a = abs(x);
  return copysign(real_log1p((a + a) / (1.0 - a)) * 0.5, x);
}

}  // namespace inductor_cuda
