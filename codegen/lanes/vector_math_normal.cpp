// Normal numbers of two uniform ones, by Box and Muller.
//
// Problem: a GPU draws two of them with some 60 instructions a Philox block, so what is behind the
//   blocks counts; and they are rounded to floats, which are to be those of the CPU to one unit of
//   the last place, so 24 bits do not suffice.
// Method: radius = sqrt(-2 log(1 - u)) and a turn of v, in doubles. 1 - u is exact, and so is what
//   is left of it when its power of two is taken away, m in [1/sqrt(2), sqrt(2)): -2 log(m) =
//   -2 f + f f q(f), f = m - 1. Quarter turns are counted by adding 1.5 2^52, whose last place is
//   1. The radius is 2e-9 off at most and sine and cosine 2e-10, a twentieth of a unit of the last
//   place of a float. All terms but the first two have 21 bits: an instruction of a GPU has room
//   for these, where others take two more to load them.
// Coefficients: tools/fit_math.py prints them.
// Cost: 34 instructions for two numbers.
// Reference: Box and Muller, A note on the generation of random normal deviates, 1958.
#include "vector_math_formulas.h"

namespace lanes {

namespace {

constexpr double normal_log_terms[] = {
    0x1.ffffffd549b96p-1, -0x1.55554634b2353p-1, 0x1.0000100000000p-1, -0x1.99a5200000000p-2,
    0x1.555e000000000p-2, -0x1.2330400000000p-2, 0x1.fb09300000000p-3, -0x1.e5e1000000000p-3,
    0x1.e8dd000000000p-3, -0x1.2779a00000000p-3};
constexpr double normal_sin_terms[] = {0x1.921fb5443b5c3p+0, -0x1.4abbce56b235bp-1,
                                       0x1.466bc00000000p-4, -0x1.32ce000000000p-8,
                                       0x1.4cd6a00000000p-13};
constexpr double normal_cos_terms[] = {0x1.ffffffff84b7bp-1, -0x1.3bd3cc6e7d17ep+0,
                                       0x1.03c1e00000000p-2, -0x1.55c8400000000p-6,
                                       0x1.daa3200000000p-11};

/// -2 log(x) of a normal x > 0.
Lanes minus_two_logs(Lanes x) {
  constexpr uint64_t low = 0x3fe6a09e00000000;  // 1/sqrt(2), with 21 bits
  constexpr double minus_two_ln2 = -0x1.62e42fefa39efp+0;
  Lanes above = to_bits(x) - to_bits(x).integer(low);
  Lanes m = from_bits((above & above.integer(0x000fffffffffffff)) + above.integer(low));
  Lanes f = m - 1.0, near = fma(f * f, polynomial(f, normal_log_terms), f * -2.0);
  return fma(integer_as_double(above >> 52), minus_two_ln2, near);
}

/// The sign that bit 1 of `number` gives.
Lanes with_sign_of_turns(Lanes number, Lanes x) {
  return from_bits(to_bits(x) ^ ((number & number.integer(2)) << 62));
}

}  // namespace

NormalPair normal_pair(Lanes u, Lanes v) {
  constexpr double integer_place = 0x1.8p52, unit = 0x1p-53, quarter = 0x1p-51;
  Lanes radius = root_by_unit(minus_two_logs(fma(u, -unit, 1.0)));
  Lanes shifted = fma(v, quarter, integer_place), turns = to_bits(shifted);
  Lanes y = fma(v, quarter, -(shifted - integer_place)), z = y * y;
  Lanes sine = y * polynomial(z, normal_sin_terms), cosine = polynomial(z, normal_cos_terms);
  Lanes bit = turns & turns.integer(1), next = turns + turns.integer(1);
  Lanes odd = turns.with(turns.b->CreateICmpNE(bit.v, turns.integer(0).v));
  return {radius * with_sign_of_turns(next, select(odd, sine, cosine)),
          radius * with_sign_of_turns(turns, select(odd, cosine, sine))};
}

}  // namespace lanes
