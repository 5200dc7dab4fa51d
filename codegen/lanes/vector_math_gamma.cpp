// lgamma, digamma and erfinv of floats, computed in double precision.
//
// Problem: series and recurrences of as many steps as the argument asks for do not suit lanes.
// Method, without branches:
//   lgamma, with logarithms of doubles, as it has zeros below 0: below 3, (u - 1) (u - 2) p(u) for u in [1, 2], which keeps the zeros exact, and one
//     logarithm; above, Stirling's series of x + 5 and the logarithm of the five factors between.
//   digamma: its asymptotic series at x + 6 less the six reciprocals between, as one quotient.
//   Both are reflected from negative arguments, where the sine and cosine of pi r count, r being
//     the distance from the nearest integer.
//   erfinv: x p(w), w = -log(1 - x x), and from w = 5 on a polynomial of its root (M. Giles,
//     Approximating the erfinv function, 2010).
// Coefficients: our own fits (Chebyshev interpolation with 60 digits, then rounded).
// Cost: 60 to 130 instructions on two registers in place of one.
#include "vector_math_formulas.h"

#include <limits>

namespace lanes {

namespace {

constexpr double pi = 0x1.921fb54442d18p+1;

constexpr double lgamma_terms[] = {
    0x1.eeb95b094c191p-2,  -0x1.2aed066becb08p-3,  0x1.01af63a50726cp-4, -0x1.0079a563308a1p-5,
    0x1.1332e1d51e0eap-6,  -0x1.353552c14254fp-7,  0x1.655f826c89946p-8, -0x1.988c90046849ep-9,
    0x1.e89b3399e7d51p-10, -0x1.8fa283365d177p-10, 0x1.ea2c99a990075p-11};
constexpr double stirling_terms[] = {1.0 / 12, -1.0 / 360, 1.0 / 1260, -1.0 / 1680, 1.0 / 1188};
constexpr double digamma_terms[] = {1.0 / 12,   -1.0 / 120, 1.0 / 252,
                                    -1.0 / 240, 1.0 / 132,  -691.0 / 32760};
constexpr double sine_terms[] = {
    0x1.921fb54442bb4p+1, -0x1.4abbce624ad99p+2, 0x1.466bc66ed3d1cp+1, -0x1.32d2c9b2d1df5p-1,
    0x1.50770f6a5a66bp-4, -0x1.e29b82ab98ea9p-8, 0x1.d53abdeb199c1p-12};
constexpr double cosine_terms[] = {
    0x1.fffffffffffbap-1, -0x1.de9e64df1c456p-1,  0x1.472be11eee079p-2, -0x1.d4fcd5b09a04dp-5,
    0x1.9f04e5ea9bffep-8, -0x1.f2b5aed313a3bp-12, 0x1.a30219670f7e5p-16};
constexpr double erfinv_middle[] = {
    0x1.805c5cffaabf1p+0,  0x1.f91e899417ac0p-3,   -0x1.11c3e29af6b02p-8,  -0x1.4863ced547e02p-10,
    0x1.c9bba8f339f32p-13, -0x1.4f46a0da98c92p-18, -0x1.cbdd9c4cb7373p-19, 0x1.00fe9cd1418bbp-21,
    0x1.1b87cb49df7c4p-26, -0x1.75351001f6a5ap-27, 0x1.dd41c8690491bp-32,  0x1.0f810cd459d8fp-33};
constexpr double erfinv_tail[] = {
    0x1.6a9efbd91213dp+1,   0x1.006dca149122cp+0,  0x1.3581fec979569p-7,   -0x1.f4e5aa1ba8730p-8,
    0x1.74a61f48def19p-8,   -0x1.d34a088f728efp-9, 0x1.8459d9f441d53p-10,  -0x1.07c8290e3c17ap-13,
    -0x1.2e2978703ae2ap-12, 0x1.628ee605b7e08p-13, -0x1.8474fe3ea30dep-16, -0x1.52c072fb67f3ep-18};

/// sin(pi r) and cos(pi r) for the distance r of x from the nearest integer.
struct Circle {
  Lanes sine, cosine;
};
Circle circle_of(Lanes x) {
  Lanes r = x - nearest(x), z = r * r;
  return {r * polynomial(z, sine_terms), fma(z, -4.0, 1.0) * polynomial(z, cosine_terms)};
}

Lanes log_positive(Lanes x) { return log_wide(x, x - 1.0); }

/// log gamma(d) for normal d > 0.
Lanes lgamma_positive(Lanes d) {
  Lanes is_near = d < 3.0, is_below = d<1.0, is_above = d> 2.0;
  Lanes u = select(is_below, d + 1.0, select(is_above, d - 1.0, d));
  Lanes few = at_most(d, 1e50), y = d + 5.0, z = 1.0 / (y * y);
  Lanes factors = few * (few + 1.0) * ((few + 2.0) * (few + 3.0)) * (few + 4.0);
  Lanes one = d.number(1.0);
  Lanes between = log_f64(select(is_near, select(is_below, d, select(is_above, u, one)), factors));
  Lanes near = fma((u - 1.0) * (u - 2.0), polynomial(u - 1.5, lgamma_terms),
                   select(is_below, -between, between));
  Lanes far = (y - 0.5) * log_f64(y) - y + 0.91893853320467274178 +
              polynomial(z, stirling_terms) / y - between;
  return select(is_near, near, far);
}

/// digamma(d) for d > 0.
Lanes digamma_positive(Lanes d) {
  // (x + k) (x + 5 - k) = s + k (5 - k), s = x (x + 5): three factors, and what 1 / x + ... + 1 /
  // (x + 5) is over their product.
  Lanes is_large = d > 1e6, x = at_most(d, 1e6);
  Lanes s = x * (x + 5.0), a = s + 4.0, b = s + 6.0;
  Lanes sum = fma(x, 2.0, 5.0) * (a * b + s * b + s * a) / (s * a * b);
  Lanes y = select(is_large, d, d + 6.0), inverse = 1.0 / y, z = inverse * inverse;
  Lanes series = log_positive(y) - inverse * 0.5 - z * polynomial(z, digamma_terms);
  return select(is_large, series, series - sum);
}

}  // namespace

Lanes lgamma_f32(Lanes x) {
  Lanes d = widened(x), is_negative = d < 0.5;
  Lanes value = lgamma_positive(select(is_negative, 1.0 - d, d));
  Lanes sine = abs(circle_of(d).sine);
  // At 0 and below, integers have poles.
  Lanes reflected = 1.1447298858494001741 - log_f64(sine) - value;
  Lanes result = narrowed(select(is_negative, reflected, value));
  return select(abs(x) == infinity, x.number(infinity), result);
}

Lanes digamma_f32(Lanes x) {
  Lanes d = widened(x), is_negative = d < 0.0;
  Lanes value = digamma_positive(select(is_negative, 1.0 - d, d));
  Circle c = circle_of(d);
  Lanes reflected = value - c.cosine * pi / c.sine;
  Lanes nan = d.number(std::numeric_limits<double>::quiet_NaN());
  Lanes result = narrowed(select(is_negative, select(c.sine == 0.0, nan, reflected), value));
  Lanes pole = copysign(x.number(infinity), -x);
  return select(x == 0.0, pole, select(x == infinity, x, result));
}

Lanes erfinv_f32(Lanes x) {
  Lanes d = widened(x), square = d * d, w = -log_wide(1.0 - square, -square);
  Lanes in_middle = w < 5.0;
  Lanes u = select(in_middle, w - 2.5, sqrt(w) - 3.0);
  Lanes factor = select(in_middle, polynomial(u, erfinv_middle), polynomial(u, erfinv_tail));
  Lanes outside = select(abs(x) == 1.0, copysign(x.number(infinity), x),
                         x.number(std::numeric_limits<double>::quiet_NaN()));
  return select(abs(x) < 1.0, narrowed(d * factor), outside);
}

}  // namespace lanes
