// asin, acos, atan and atan2 of doubles.
//
// Method: atan(a) of a in [0, 1] is atan(c) + atan((a - c) / (1 + a c)) with c the nearest multiple
// of 1/8; the second angle is below 1/16, where seven terms of the series do. Larger ones are pi/2
// less that of 1/a. asin and acos are angles of a quotient of roots, which keeps their digits at the
// ends.
#include "real_functions.h"

#include <limits>

namespace inductor_cuda {

using namespace lanes;

namespace {

/// atan(i / 8) in two parts.
struct Known {
  double high, low;
};
constexpr Known known[] = {{0, 0},
                           {0x1.fd5ba9aac2f6ep-4, -0x1.cd37686760c17p-59},
                           {0x1.f5b75f92c80ddp-3, 0x1.8ab6e3cf7afbdp-57},
                           {0x1.6f61941e4def1p-2, -0x1.c63aae6f6e918p-56},
                           {0x1.dac670561bb4fp-2, 0x1.a2b7f222f65e2p-56},
                           {0x1.1e00babdefeb4p-1, -0x1.928df287a668fp-58},
                           {0x1.4978fa3269ee1p-1, 0x1.2419a87f2a458p-56},
                           {0x1.700a7c5784634p-1, -0x1.8c34d25aadef6p-56},
                           {0x1.921fb54442d18p-1, 0x1.1a62633145c07p-55}};

/// Of a in [0, 1].
Lanes inner_angle(Lanes a) {
  constexpr double terms[] = {-1.0 / 3, 1.0 / 5, -1.0 / 7, 1.0 / 9, -1.0 / 11, 1.0 / 13, -1.0 / 15};
  Lanes i = nearest(a * 8.0), c = i * 0.125;
  Lanes high = a.number(0), low = a.number(0);
  for (size_t k = 1; k < std::size(known); ++k) {
    Lanes is_here = i == static_cast<double>(k);
    high = select(is_here, high.number(known[k].high), high);
    low = select(is_here, low.number(known[k].low), low);
  }
  Lanes r = (a - c) / fma(a, c, 1.0), z = r * r;
  return high + (r + fma(r * z, polynomial(z, terms), low));
}

/// Of a >= 0.
Lanes angle(Lanes a) {
  Lanes is_large = a > 1.0;
  Lanes inner = inner_angle(select(is_large, 1.0 / a, a));
  return select(is_large, half_pi - (inner - half_pi_low), inner);
}

}  // namespace

Lanes real_atan(Lanes x) { return select(is_nan(x), x, copysign(angle(abs(x)), x)); }

Lanes real_asin(Lanes x) {
  Lanes a = abs(x), root = sqrt((1.0 - a) * (a + 1.0));
  Lanes out = copysign(angle(a / root), x);
  return select(root == root, out, root);  // NaN beyond 1
}

Lanes real_acos(Lanes x) {
  Lanes quotient = sqrt((1.0 - x) / (x + 1.0));
  Lanes out = angle(quotient) * 2.0;
  return select(quotient == quotient, out, quotient);
}

Lanes real_atan2(Lanes y, Lanes x) {
  Lanes a = abs(y), b = abs(x), is_steep = b < a;
  // Equal operands have the quotient 1 even when infinite, and 0 when 0.
  Lanes equal = choose(a == 0.0, a, 1);
  Lanes inner = inner_angle(select(a == b, equal, select(is_steep, b, a) / select(is_steep, a, b)));
  Lanes upper = select(is_steep, half_pi - (inner - half_pi_low), inner);
  Lanes bits = to_bits(x);  // the sign of x counts, even that of 0
  Lanes is_left = x.with(x.b->CreateICmpSLT(bits.v, bits.integer(0).v));
  Lanes out = copysign(select(is_left, 2 * half_pi - (upper - 2 * half_pi_low), upper), y);
  return select(is_nan(x) | is_nan(y), x + y, out);
}

}  // namespace inductor_cuda
