// Functions of floats that are computed in double precision: powers, logarithms to other bases,
// hyperbolic functions and erfc.
//
// Problem: many functions whose straight formulas lose digits in single precision.
// Method: widened, the straight formulas have digits to spare: polynomials good to 1e-11 leave the
//   result within 0.51 ulp, and arguments that are subnormal or results that overflow are ordinary
//   numbers until the last step. Two cores do it: expm1(x) = 2^n expm1(r) + (2^n - 1) and
//   log(1 + t), where the t as given stands in for the rounded 1 + t - 1 when n is 0.
//   erfc(a) is exp(-a a) / (1 + 2a) times a function that is nearly 1 and smooth in
//   (a - 2) / (a + 2).
// Coefficients: tools/fit_math.py prints them.
// Cost: two registers in place of one, 30 to 60 instructions.
// Reference: Shepherd and Laframboise, Chebyshev approximation of (1 + 2x) exp(x^2) erfc x, 1981.
#include "vector_math_formulas.h"

#include <limits>

namespace lanes {

namespace {

constexpr double wide_exp_terms[] = {
    0x1.000000005e019p-1,  0x1.5555557dd96c5p-3,  0x1.5555541e21cfep-5, 0x1.1110a253f3bc1p-7,
    0x1.6c18d366c8800p-10, 0x1.a18572e8797e7p-13, 0x1.9e89217668dc8p-16};
constexpr double wide_log_terms[] = {
    -0x1.0000000156cd3p-1, 0x1.55555558072adp-2, -0x1.fffffa96804f5p-3, 0x1.99998eaed63f3p-3,
    -0x1.5556d92189775p-3, 0x1.2496e98395a1bp-3, -0x1.ffad236e10de7p-4, 0x1.c5b288fc16c51p-4,
    -0x1.9c556c1ef701bp-4, 0x1.8a4ae7072b614p-4, -0x1.67e74844ef8adp-4, 0x1.b63606dd7a17fp-5,
    -0x1.6abd352630e3ep-8, -0x1.37169e07d90d9p-7};
constexpr double erfc_terms[] = {
    0x1.46e80e22cad6dp+0,   -0x1.7bf5ebe60f143p-4,  -0x1.5407c0374f835p-3, 0x1.4ffa1929e386cp-3,
    -0x1.bc2b0f2b13d02p-5,  -0x1.073d397b5bc5cp-7,  0x1.1dc1dc3b147b6p-7,  0x1.4c1e1b67dea2dp-10,
    -0x1.7c0a41d5699c3p-10, -0x1.cae9ed91e0a7cp-12, 0x1.9d8e947257f71p-13, 0x1.f48c6da80dd2ep-14,
    -0x1.243cbfcca2e31p-18, -0x1.65bbd42b92dbfp-17};

constexpr double ln2 = 0x1.62e42fefa39efp-1;

/// exp(d) = power (1 + near) for |d| <= 700.
struct Exponential {
  Lanes near, power;
  Lanes value() const { return fma(power, near, power); }
  Lanes minus_one() const { return fma(power, near, power - 1.0); }
};
Exponential exponential(Lanes d) {
  ExpArgument argument = exp_argument(d);
  Lanes r = argument.r;
  return {fma(r * r, polynomial(r, wide_exp_terms), r), power_of_two(argument)};
}

/// log(u) = k ln 2 + log(m) for normal u > 0. `near_one` is u - 1 as far as that was not rounded.
struct Logarithm {
  Lanes k, log_m;
  Lanes value() const { return fma(k, ln2, log_m); }
};
Logarithm logarithm(Lanes u, Lanes near_one) {
  constexpr uint64_t low = 0x3fe8000000000000;  // 0.75
  Lanes above = to_bits(u) - to_bits(u).integer(low);
  Lanes k = integer_as_double(above >> 52);
  Lanes m = from_bits((above & above.integer(0x000fffffffffffff)) + above.integer(low));
  Lanes f = select(k == 0.0, near_one, m - 1.0);
  return {k, fma(f * f, polynomial(f, wide_log_terms), f)};
}

/// log(1 + t) for t > -1.
Lanes log1p_wide(Lanes t) { return logarithm(t + 1.0, t).value(); }

/// Beyond 100 the results of expm1, sinh and cosh are not floats.
Lanes clamped(Lanes d) { return at_most(at_least(d, -100), 100); }

Lanes log_to_base(Lanes x, double log_2, double log_e) {
  Lanes d = widened(x);
  Logarithm parts = logarithm(d, d - 1.0);
  return log_limits(x, narrowed(fma(parts.log_m, log_e, parts.k * log_2)));
}

}  // namespace

Lanes log_wide(Lanes u, Lanes near_one) { return logarithm(u, near_one).value(); }

Lanes expm1_f32(Lanes x) {
  return copysign(narrowed(exponential(clamped(widened(x))).minus_one()), x);
}

Lanes log2_f32(Lanes x) { return log_to_base(x, 1, 0x1.71547652b82fep+0); }

Lanes log10_f32(Lanes x) { return log_to_base(x, 0x1.34413509f79ffp-2, 0x1.bcb7b1526e50ep-2); }

Lanes log1p_f32(Lanes x) {
  Lanes result = narrowed(log1p_wide(widened(x)));
  return select(x == 0.0, x, log_limits(x + 1.0, result));
}

Lanes sinh_f32(Lanes x) {
  Lanes t = exponential(clamped(widened(abs(x)))).minus_one();
  return copysign(narrowed((t + t / (t + 1.0)) * 0.5), x);
}

Lanes cosh_f32(Lanes x) {
  Lanes e = exponential(clamped(widened(abs(x)))).value();
  return narrowed((e + 1.0 / e) * 0.5);
}

Lanes asinh_f32(Lanes x) {
  Lanes a = widened(abs(x)), square = a * a;
  Lanes result = narrowed(log1p_wide(a + square / (sqrt(square + 1.0) + 1.0)));
  return select(abs(x) < infinity, copysign(result, x), x);
}

Lanes acosh_f32(Lanes x) {
  Lanes t = widened(x) - 1.0;
  // Below 1 the root is NaN, above 1 + t the argument is positive.
  Lanes inner = t + sqrt(t * (t + 2.0));
  Lanes result = narrowed(log1p_wide(inner));
  Lanes nan = x.number(std::numeric_limits<double>::quiet_NaN());
  return select(x >= 1.0, select(x < infinity, result, x), nan);
}

Lanes atanh_f32(Lanes x) {
  Lanes a = widened(abs(x));
  Lanes t = (a + a) / (1.0 - a);
  Lanes inside = narrowed(log1p_wide(t) * 0.5);
  // t is infinite at 1 and below -1 beyond it.
  Lanes magnitude = select(abs(x) < 1.0, inside, log_limits(narrowed(t), narrowed(t)));
  return copysign(magnitude, x);
}

Lanes erfc_f32(Lanes x) {
  // Beyond 10.06 the result is not a float but 0.
  Lanes a = at_most(widened(abs(x)), 10.5);
  Lanes e = exponential(-(a * a)).value();
  Lanes left = a + 2.0, right = fma(a, 2.0, 1.0);
  Lanes inverse = 1.0 / (left * right);
  Lanes q = polynomial((a - 2.0) * right * inverse, erfc_terms);
  Lanes value = e * q * (left * inverse);
  return narrowed(select(x < 0.0, 2.0 - value, value));
}

// exp(y log |x|), then the sign; what IEEE 754 says of 0, 1, infinity and NaN follows from the
// limits of the two functions but for the three cases below.
Lanes pow_f32(Lanes x, Lanes y) {
  Lanes a = abs(x), d = widened(a), w = widened(y);
  Lanes l = log_limits(d, logarithm(d, d - 1.0).value());
  // |x| = 1: 0 times an infinite y would be NaN.
  Lanes t = select(a == 1.0, select(y == y, w.number(0), w), w * l);
  Lanes result = narrowed(exponential(at_most(at_least(t, -160), 160)).value());

  Lanes half = y * 0.5;
  Lanes integer = nearest(y) == y, even = nearest(half) == half;
  Lanes odd = integer & (even ^ even.integer(1));
  Lanes signed_result = select(odd, copysign(result, x), result);
  Lanes nan = x.number(std::numeric_limits<double>::quiet_NaN());
  Lanes fraction = integer ^ integer.integer(1);
  Lanes undefined = (x < 0.0) & (a < infinity) & fraction;
  // x^0 and 1^y are 1 even for NaN.
  Lanes one = (y == 0.0) | (x == 1.0);
  return select(one, x.number(1), select(undefined, nan, signed_result));
}

}  // namespace lanes
