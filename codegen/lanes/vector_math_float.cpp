// exp, exp2, log, sigmoid, tanh and erf in single precision: the functions that networks live on.
//
// Problem: a vector of 16 floats in 10 to 30 instructions, no branches, no tables, 1 to 2.5 ulp.
// Method: exp(x) = 2^n exp(r) with x = n ln 2 + r; |r| <= ln 2 / 2 comes from two fused
//   multiply-adds, the first of which is exact, and exp(r) from a polynomial of degree 6. log(x)
//   takes n and m in [0.75, 1.5) out of the bits of x, and n ln 2 + log(m) has its largest term
//   added last. sigmoid divides once. tanh and erf are odd polynomials near 0, where a difference
//   would cancel, and 1 - 2 / (exp(2x) + 1) and 1 - 2^p(x) above, where the error of the
//   subtracted part counts little; both arms are computed and one is selected.
// Rounding: n is found by adding 1.5 2^23, whose last place is 1; the sum has n in its low bits.
//   A factor 2^n below the normal numbers is applied as 2^(n + 64) 2^-64, so that the result is
//   rounded once. NaN passes through the polynomial and is never rebuilt from bits.
// Coefficients: tools/fit_math.py prints them; the names there are those of the arrays here.
// Cost: 0.1 to 0.25 ns an element; see the table of vector_math.cpp.
// Reference: Muller et al., Handbook of Floating-Point Arithmetic, chapter 10 (argument reduction).
#include "vector_math_formulas.h"

#include <limits>

namespace lanes {

namespace {

constexpr double exp_terms[] = {0.49999994, 0.166665167, 0.0416681021, 0.00836919248,
                                0.00138388935};
constexpr double exp2_terms[] = {0.693147182,   0.240226507,   0.0555037819,
                                 0.00961847231, 0.00133838039, 0.000152801309};
constexpr double log_terms[] = {0.333333403,  -0.250001669,  0.199995652,
                                -0.166551694, 0.142771751,   -0.127311826,
                                0.116956756,  -0.0908706635, 0.0373980552};
constexpr double erf_near_terms[] = {0.128379151,   -0.376124799,  0.112816177,
                                     -0.0267585646, 0.00498068752, -0.000592512486};
constexpr double erf_far_terms[] = {-0.00294394093, -1.61526704,  -0.939977407,
                                    -0.130681083,   0.0222268216, -0.00177389325};
constexpr double tanh_near_terms[] = {-0.333333313, 0.133332223,    -0.053948462,
                                      0.0217087474, -0.00819507334, 0.00215761387};

// ln 2 in two parts of one sign, so that they agree where their factor is infinite.
constexpr double ln2_high = 0x1.62e42ep-1, ln2_low = 0x1.efa39ef35793cp-25;
constexpr double ln2_high_f64 = 0x1.62e42fefa39efp-1, ln2_low_f64 = 0x1.abc9e3b39803fp-56;

/// exp(r) for |r| <= ln 2 / 2.
Lanes exp_near_zero(Lanes r) {
  Lanes high = polynomial(r, exp_terms);
  return fma(fma(high, r, 1.0), r, 1.0);
}

/// 2^r for |r| <= 1/2.
Lanes exp2_near_zero(Lanes r) { return fma(polynomial(r, exp2_terms), r, 1.0); }

ExpArgument exp2_argument(Lanes x) {
  constexpr double integer_place = 0x1.8p23;
  Lanes shifted = x + integer_place;
  Lanes n = shifted - integer_place;
  return {x - n, n, shifted};
}

/// exp(x) for x in [-104, 0]: below 0 the scaling needs no choice.
Lanes exp_of_negative(Lanes x) {
  ExpArgument argument = exp_argument(x);
  Lanes all = x.with(x.b->getTrue());
  return scaled(exp_near_zero(argument.r), argument, all);
}

/// x = m 2^k, m in [0.75, 1.5), for positive numbers, from the bits.
Split split_bits(Lanes x) {
  constexpr uint32_t low = 0x3f400000;  // 0.75
  Lanes subnormal = x < 0x1p-126;
  Lanes above = to_bits(select(subnormal, x * 0x1p23, x));
  above = above - above.integer(low);
  Lanes m = from_bits((above & above.integer(0x007fffff)) + above.integer(low));
  Lanes k = x.with(x.b->CreateSIToFP((above >> 23).v, x.type()));
  return {m, k - select(subnormal, x.number(23), x.number(0))};
}

}  // namespace

Lanes exp_f32(Lanes x) {
  // One step beyond the arguments at which the result is 0 and infinite.
  ExpArgument argument = exp_argument(at_most(at_least(x, -104), 89));
  return scaled(exp_near_zero(argument.r), argument, x < 0.0);
}

Lanes exp2_f32(Lanes x) {
  ExpArgument argument = exp2_argument(at_most(at_least(x, -151), 129));
  return scaled(exp2_near_zero(argument.r), argument, x < 0.0);
}

Lanes log_f32(Lanes x) {
  bool direct = has_exponent_instructions(x);
  Split parts = direct ? Split{mantissa_of(x), exponent_of(x, mantissa_of(x))} : split_bits(x);
  Lanes f = parts.m - 1.0;
  Lanes q = fma(polynomial(f, log_terms), f, -0.5);
  Lanes rest = fma(q, f * f, parts.k * ln2_low);
  Lanes result = fma(parts.k, ln2_high, f + rest);
  return direct ? result : log_limits(x, result);
}

Lanes sigmoid_f32(Lanes x) {
  // Through exp(-|x|): no overflow, and the small results of x < 0 keep their digits.
  Lanes e = exp_of_negative(at_least(-abs(x), -104));
  return select(x < 0.0, e, e.number(1)) / (e + 1.0);
}

Lanes tanh_near_zero(Lanes x) {
  Lanes z = x * x;
  return fma(x * z, polynomial(z, tanh_near_terms), x);
}

Lanes tanh_f32(Lanes x) {
  Lanes a = abs(x);
  // Beyond 10 the result is 1.
  Lanes twice = at_most(a + a, 20);
  ExpArgument argument = exp_argument(twice);
  Lanes e = exp_near_zero(argument.r) * power_of_two(argument);
  Lanes far = 1.0 - 2.0 / (e + 1.0);
  return copysign(select(a >= tanh_far_from, far, tanh_near_zero(a)), x);
}

Lanes erf_near_zero(Lanes x) { return fma(x, polynomial(x * x, erf_near_terms), x); }

Lanes erf_far_exponent(Lanes a) { return polynomial(at_most(a, 3.93), erf_far_terms); }

Lanes erf_f32(Lanes x) {
  Lanes a = abs(x);
  ExpArgument argument = exp2_argument(erf_far_exponent(a));
  Lanes far = fma(-exp2_near_zero(argument.r), power_of_two(argument), 1.0);
  return select(a >= erf_far_from, copysign(far, x), erf_near_zero(x));
}

Lanes log_limits(Lanes x, Lanes result) {
  Lanes ordinary = select(x < infinity, result, x);
  Lanes positive = select(x == 0.0, x.number(-infinity), ordinary);
  return select(x < 0.0, x.number(std::numeric_limits<double>::quiet_NaN()), positive);
}

ExpArgument exp_argument(Lanes x) {
  bool wide = x.bits() == 64;
  double integer_place = wide ? 0x1.8p52 : 0x1.8p23;
  Lanes shifted = fma(x, 0x1.71547652b82fep+0, integer_place);
  Lanes n = shifted - integer_place;
  Lanes r = fma(n, wide ? -ln2_high_f64 : -ln2_high, x);
  r = fma(n, wide ? -ln2_low_f64 : -ln2_low, r);
  return {r, n, shifted};
}

Lanes power_of_two(const ExpArgument& argument) {
  bool wide = argument.n.bits() == 64;
  Lanes n = to_bits(argument.shifted);
  return from_bits((n << (wide ? 52 : 23)) + n.integer(wide ? 1023ull << 52 : 127ull << 23));
}

Lanes scaled(Lanes p, const ExpArgument& argument, Lanes negative) {
  if (has_exponent_instructions(p)) return scaled_at_once(p, argument.n);
  bool wide = p.bits() == 64;
  Lanes n = to_bits(argument.shifted);
  auto exponent = [&](int64_t e) {
    return n.integer(static_cast<uint64_t>(wide ? (1023 + e) << 52 : (127 + e) << 23));
  };
  // 2^(n + 64) 2^-64 or 2^(n - 64) 2^64: neither factor leaves the normal numbers.
  Lanes power = from_bits((n << (wide ? 52 : 23)) + select(negative, exponent(64), exponent(-64)));
  return p * power * select(negative, p.number(0x1p-64), p.number(0x1p64));
}

}  // namespace lanes
