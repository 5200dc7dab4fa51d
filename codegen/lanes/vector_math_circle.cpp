// sin, cos, tan, asin, acos, atan and atan2 of floats, computed in double precision.
//
// Problem: sin(x) for every finite float, to 1 ulp and without a branch. x = 3e38 is a multiple of
//   2^104, and its place in the circle depends on digits of 2/pi 128 places after the point.
// Model: y = |x| 2/pi counts quarter turns; needed are y modulo 4 and the fraction y - round(y).
// Method: x below 2^b and at least 2^a is a multiple of 2^(a - 23), so the digits of 2/pi worth
//   2^(25 - a) and more give multiples of 4 and are left out beforehand. What is left is kept in
//   two doubles, one pair for each of four ranges of |x|, picked lane by lane. The product with
//   the first is taken exactly, as a rounded product and its error by fma; below 2^51 its nearest
//   integer falls into the low bits when 1.5 2^52 is added. The fraction has an error below 2^-53,
//   and no float above 1 comes closer to a multiple of pi/2 than 2^-30, so 23 bits are right. Both
//   polynomials are in quarter turns, so nothing is scaled back.
//   The inverse functions reduce by asin(a) = pi/2 - 2 asin(sqrt((1 - a) / 2)) above 1/2 and
//   atan(a) = pi/2 - atan(1 / a) above 1.
// Coefficients: tools/fit_math.py prints them.
// Cost: 30 instructions on two registers for sin and cos; 20 of them would do up to 2^50.
// Reference: Payne and Hanek, Radian reduction for trigonometric functions, SIGNUM 18, 1983.
#include "vector_math_formulas.h"

#include <limits>

namespace lanes {

namespace {

constexpr double sin_terms[] = {0x1.921fb54442cfap+0,  -0x1.4abbce6257a20p-1,
                                0x1.466bc67122d89p-4,  -0x1.32d2c64397a1fp-8,
                                0x1.5071cd83a2077p-13, -0x1.dd5420a1bde00p-19};
constexpr double cos_terms[] = {0x1.ffffffffffe0bp-1,  -0x1.3bd3cc9bd2bfcp+0,
                                0x1.03c1f074dc43ap-2,  -0x1.55d3ba2dba613p-6,
                                0x1.e1e7cb2b277f8p-11, -0x1.a0edb0116fbd4p-16};
constexpr double asin_terms[] = {0x1.ffffffffffdf8p-1, 0x1.55555556e230fp-3, 0x1.333331a3bdf45p-4,
                                 0x1.6db7770fd4ff2p-5, 0x1.f1a86fd539c7dp-6, 0x1.70453fc31e6f7p-6,
                                 0x1.0d5a1fb0b78d2p-6, 0x1.3380f7e21bc0bp-6, -0x1.9ad23b0a86f24p-9,
                                 0x1.07b683b5abdb0p-5};
constexpr double atan_terms[] = {
    0x1.fffffffffd0ebp-1, -0x1.5555554bd1f75p-2, 0x1.9999947eb5066p-3, -0x1.2491be8eb13abp-3,
    0x1.c70d03658ea6ep-4, -0x1.73d812c949977p-4, 0x1.3821f4f006380p-4, -0x1.057d815e280c0p-4,
    0x1.a041e8579bd4cp-5, -0x1.24e8f3fd2e22ap-5, 0x1.4e077b14f1ce0p-6, -0x1.16d93b60a6af7p-7,
    0x1.27a74daaba9a0p-9, -0x1.267cb080b61a7p-12};

constexpr double pi = 0x1.921fb54442d18p+1;

/// 2/pi in two parts, less multiples of 2^(25 - a) for arguments of 2^a and above.
struct TwoOverPi {
  double above, high, low;
};
constexpr TwoOverPi two_over_pi[] = {
    {0, 0x1.45f306dc9c883p-1, -0x1.6b01ec5417056p-55},
    {0x1p50, 0x1.b9391054a7f0ap-26, -0x1.505c1596447e5p-81},
    {0x1p76, 0x1.529fc2757d1f5p-52, 0x1.a6ee06db14acdp-107},
    {0x1p102, 0x1.d5f47d4d37703p-78, 0x1.b6295993c4390p-132},
};

/// The fraction y of a quarter turn in [-1/2, 1/2] and the number of quarter turns, the latter in
/// the low bits of an integer.
struct Quadrant {
  Lanes y, turns;
  Lanes sine() const { return y * polynomial(y * y, sin_terms); }
  Lanes cosine() const { return polynomial(y * y, cos_terms); }
  Lanes odd() const {
    Lanes bit = turns & turns.integer(1);
    return turns.with(turns.b->CreateICmpNE(bit.v, turns.integer(0).v));
  }
  /// `x` with the sign that bit 1 of `number` gives.
  static Lanes with_sign_of(Lanes number, Lanes x) {
    return from_bits(to_bits(x) ^ ((number & number.integer(2)) << 62));
  }
};

constexpr double integer_place = 0x1.8p52;  // its last place is 1

/// Of a widened float a >= 0.
Quadrant quadrant(Lanes a) {
  Lanes high = a.number(two_over_pi[0].high), low = a.number(two_over_pi[0].low);
  for (const TwoOverPi& range : std::span(two_over_pi).subspan(1)) {
    Lanes above = a >= range.above;
    high = select(above, a.number(range.high), high);
    low = select(above, a.number(range.low), low);
  }
  Lanes product = a * high;
  Lanes error = fma(a, high, -product);
  Lanes shifted = product + integer_place;
  Lanes fraction = product - (shifted - integer_place);
  return {fraction + fma(a, low, error), to_bits(shifted)};
}

/// asin(a) is a q for a in [0, 1/2], else pi/2 - 2 a q, with the a and q given.
struct ArcSine {
  Lanes near, part;
};
ArcSine arc_sine(Lanes a) {
  Lanes near = a.with(a.b->CreateFCmpOLE(a.v, a.number(0.5).v));
  Lanes square = select(near, a * a, 0.5 - a * 0.5);
  Lanes root = select(near, a, sqrt(square));
  return {near, root * polynomial(square, asin_terms)};
}

/// atan(a) for a in [0, 1].
Lanes arc_tangent(Lanes a) { return a * polynomial(a * a, atan_terms); }

}  // namespace

Lanes sin_f32(Lanes x) {
  Quadrant q = quadrant(widened(abs(x)));
  Lanes value = Quadrant::with_sign_of(q.turns, select(q.odd(), q.cosine(), q.sine()));
  Lanes sign = to_bits(x) & to_bits(x).integer(0x80000000);
  return from_bits(to_bits(narrowed(value)) ^ sign);
}

Lanes cos_f32(Lanes x) {
  Quadrant q = quadrant(widened(abs(x)));
  Lanes next = q.turns + q.turns.integer(1);
  return narrowed(Quadrant::with_sign_of(next, select(q.odd(), q.sine(), q.cosine())));
}

Lanes tan_f32(Lanes x) {
  Quadrant q = quadrant(widened(abs(x)));
  Lanes odd = q.odd(), sine = q.sine(), cosine = q.cosine();
  Lanes value = narrowed(select(odd, -cosine, sine) / select(odd, sine, cosine));
  Lanes sign = to_bits(x) & to_bits(x).integer(0x80000000);
  return from_bits(to_bits(value) ^ sign);
}

Lanes asin_f32(Lanes x) {
  auto [near, part] = arc_sine(widened(abs(x)));
  return copysign(narrowed(select(near, part, fma(part, -2.0, pi / 2))), x);
}

Lanes acos_f32(Lanes x) {
  auto [near, part] = arc_sine(widened(abs(x)));
  Lanes inner = pi / 2 - copysign(part, widened(x));
  Lanes outer = select(x > 0.0, part * 2.0, fma(part, -2.0, pi));
  return narrowed(select(near, inner, outer));
}

Lanes atan_f32(Lanes x) {
  Lanes a = widened(abs(x));
  Lanes large = a > 1.0;
  Lanes angle = arc_tangent(select(large, 1.0 / a, a));
  return copysign(narrowed(select(large, pi / 2 - angle, angle)), x);
}

Lanes atan2_f32(Lanes y, Lanes x) {
  Lanes a = widened(abs(y)), b = widened(abs(x));
  Lanes steep = b < a;
  // Equal operands have the quotient 1 even when infinite, and 0 when 0.
  Lanes quotient = select(steep, b, a) / select(steep, a, b);
  Lanes equal = select(a == 0.0, a, a.number(1));
  Lanes angle = arc_tangent(select(a == b, equal, quotient));
  Lanes upper = select(steep, pi / 2 - angle, angle);
  // The sign of x counts, even that of 0.
  Lanes bits = to_bits(x);
  Lanes left = x.with(x.b->CreateICmpSLT(bits.v, bits.integer(0).v));
  Lanes result = copysign(narrowed(select(left, pi - upper, upper)), y);
  Lanes known = x.with(x.b->CreateFCmpORD(x.v, y.v));
  return select(known, result, x.number(std::numeric_limits<double>::quiet_NaN()));
}

}  // namespace lanes
