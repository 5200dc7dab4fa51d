// exp, log, sigmoid, tanh and erf in double precision.
//
// Problem and method are those of vector_math_float.cpp, to 1 or 2 ulp of double. log(1 + f) is
// found through s = f / (2 + f), as log(1 + f) = 2 (s + s^3/3 + ...) has half the terms and only
// odd ones; f - f s = 2 s gives it the form f - small, whose rounding is that of f. tanh is
// t / (t + 2) with t = exp(2x) - 1, which keeps its digits near 0. What rounding takes from the
// operands of a quotient is carried along, as each of the four roundings would cost half an ulp.
// erf far from 0 is 1 - exp(-x x) p(x), with the square in two parts.
// Coefficients: tools/fit_math.py prints them.
// Reference: the same use of s in K. C. Ng's log of fdlibm (Sun, 1993).
#include "vector_math_formulas.h"

namespace lanes {

namespace {

constexpr double exp_terms[] = {0x1.000000000000ap-1,  0x1.5555555555503p-3,  0x1.5555555550605p-5,
                                0x1.1111111124d65p-7,  0x1.6c16c184b5b20p-10, 0x1.a01a013d2c70cp-13,
                                0x1.a019988a987d2p-16, 0x1.71def50354d6cp-19, 0x1.28aedaad25dbap-22,
                                0x1.add448a87b6a0p-26};
constexpr double log_terms[] = {0x1.5555555555780p-2, 0x1.99999998ee0edp-3, 0x1.249249b405d7ep-3,
                                0x1.c71c0030852d5p-4, 0x1.747513e269c39p-4, 0x1.384f0137c56dap-4,
                                0x1.3adbf006e3492p-4};

constexpr double erf_near_terms[] = {
    0x1.06eba8214db69p-3,  -0x1.812746b0379e2p-2,  0x1.ce2f21a0418a9p-4,  -0x1.b82ce31205500p-6,
    0x1.565bccf633fedp-8,  -0x1.c02daf180d176p-11, 0x1.f9a28bdf19f5dp-14, -0x1.f4c61e900e649p-17,
    0x1.b946384350888p-20, -0x1.5a2cf4553240bp-23, 0x1.c64b0a6de6178p-27, -0x1.6ae84e835f8fbp-31};
constexpr double erf_far_terms[] = {
    0x1.46ba7a2e210d7p-3,   -0x1.bdd60e8634566p-4,  0x1.267f7bc72ade5p-4,   -0x1.79a853d64c7c1p-5,
    0x1.d722c4919d6cap-6,   -0x1.1e6cdda9eb395p-6,  0x1.53fe6f4899e07p-7,   -0x1.8a835c731544ep-8,
    0x1.bfdf7bcf761d7p-9,   -0x1.f593befc174adp-10, 0x1.0d1901b79b35bp-10,  -0x1.115744b69edbap-11,
    0x1.ca92631e11333p-12,  0x1.32c191c66adccp-17,  -0x1.0582a95940c54p-14, -0x1.5fb69c1c345cdp-11,
    -0x1.73667e3c0de82p-11, -0x1.e66a4a3bb7a1fp-14, 0x1.6f2e15c2d1820p-11,  0x1.eb53289572107p-11,
    0x1.3f4066061a67ap-11,  0x1.b9f9118df2442p-13,  0x1.10f94c4fc0ad5p-15};

/// A sum of two numbers of which the second is about what rounding took from the first.
struct Sum {
  Lanes high, low;
};

/// a / b, within little more than half an ulp.
Lanes quotient(const Sum& a, const Sum& b) {
  Lanes inverse = 1.0 / b.high;
  Lanes q = a.high * inverse;
  Lanes rest = fma(-q, b.high, a.high) + fma(-q, b.low, a.low);
  return fma(rest, inverse, q);
}

}  // namespace

Lanes expm1_near_zero(Lanes r) { return fma(r * r, polynomial(r, exp_terms), r); }

Split split_real(Lanes x) {
  constexpr uint64_t low = 0x3fe8000000000000;  // 0.75
  Lanes subnormal = x < 0x1p-1022;
  Lanes above = to_bits(select(subnormal, x * 0x1p54, x));
  above = above - above.integer(low);
  Lanes m = from_bits((above & above.integer(0x000fffffffffffff)) + above.integer(low));
  Lanes k = integer_as_double(above >> 52);
  return {m, k - select(subnormal, x.number(54), x.number(0))};
}

Lanes exp_f64(Lanes x) {
  ExpArgument argument = exp_argument(at_most(at_least(x, -746), 710));
  return scaled(expm1_near_zero(argument.r) + 1.0, argument, x < 0.0);
}

Lanes log_f64(Lanes x) {
  constexpr double ln2_high = 0x1.62e42fefa39efp-1, ln2_low = 0x1.abc9e3b39803fp-56;
  bool direct = has_exponent_instructions(x);
  Split parts = direct ? Split{mantissa_of(x), exponent_of(x, mantissa_of(x))} : split_real(x);
  Lanes f = parts.m - 1.0;
  Lanes s = f / (f + 2.0);
  Lanes z = s * s;
  Lanes half_square = f * f * 0.5;
  Lanes odd = fma(z * 2.0, polynomial(z, log_terms), half_square);
  Lanes rest = fma(s, odd, parts.k * ln2_low) - half_square;
  Lanes result = fma(parts.k, ln2_high, f + rest);
  return direct ? result : log_limits(x, result);
}

Lanes sigmoid_f64(Lanes x) {
  ExpArgument argument = exp_argument(at_least(-abs(x), -746));
  Lanes all = x.with(x.b->getTrue());
  Lanes y = expm1_near_zero(argument.r), p = y + 1.0;
  Lanes e = scaled(p, argument, all), low = scaled(y - (p - 1.0), argument, all);
  Lanes sum = e + 1.0, sum_low = e - (sum - 1.0) + low;
  Lanes negative = x < 0.0, zero = x.number(0);
  return quotient({select(negative, e, e.number(1)), select(negative, low, zero)}, {sum, sum_low});
}

Lanes tanh_f64(Lanes x) {
  Lanes a = abs(x);
  // Beyond 22 the result is 1.
  ExpArgument argument = exp_argument(at_most(a + a, 44));
  Lanes power = power_of_two(argument), y = expm1_near_zero(argument.r);
  Lanes less = power - 1.0;
  Lanes t = fma(power, y, less), t_low = fma(power, y, less - t);
  Lanes sum = t + 2.0, sum_low = t - (sum - 2.0) + t_low;
  return copysign(quotient({t, t_low}, {sum, sum_low}), x);
}

Lanes erf_f64(Lanes x) {
  Lanes a = abs(x);
  Lanes near = fma(x, polynomial(x * x, erf_near_terms), x);
  // Beyond 5.93 the result is 1.
  Lanes c = at_most(a, 5.93), square = c * c, square_low = fma(c, c, -square);
  ExpArgument argument = exp_argument(-square);
  Lanes e = expm1_near_zero(argument.r - square_low) + 1.0;
  Lanes h = polynomial(fma(c, 0.4, -1.36), erf_far_terms);
  Lanes far = fma(-(e * h), power_of_two(argument), 1.0);
  return select(a >= 0.9, copysign(far, x), near);
}

}  // namespace lanes
