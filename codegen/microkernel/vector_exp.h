// exp of numbers that are not positive, by lanes.
//
// Method: exp(x) = 2^n exp(r), x = n ln 2 + r with |r| <= ln 2 / 2; exp(r) by a polynomial of
// degree 6 whose coefficients tools/fit_math.py prints (exp); 2^n by adding to the exponent. Below
// -87.3, where results would be subnormal, 0. Error: 1 ulp. NaN stays.
#pragma once

#include "lanes.h"

namespace microkernel::MICROKERNEL_LEVEL {

static inline Vector exp_of_negative(Vector x) {
  constexpr float terms[] = {0.49999994f, 0.166665167f, 0.0416681021f, 0.00836919248f,
                             0.00138388935f};
  constexpr float integer_place = 0x1.8p23f, lowest = -87.3f;
  Vector shifted = x * 0x1.715476p+0f + integer_place;  // n in its low bits
  Vector n = shifted - integer_place;
  Vector r = x - n * 0x1.62e4p-1f - n * 0x1.7f7d1cp-20f;  // the first product is exact
  Vector high = terms[4] * r + terms[3];
  for (int i = 2; i >= 0; --i) high = high * r + terms[i];
  Vector power = (high * r + 1) * r + 1;
  // Without signs: what is below `lowest` may leave the range of integers.
  typedef uint32_t Bits __attribute__((vector_size(sizeof(Vector))));
  Bits exponent = reinterpret_cast<Bits>(shifted) << 23;
  Vector scaled = reinterpret_cast<Vector>(reinterpret_cast<Bits>(power) + exponent);
  return x < lowest ? Vector{} : scaled;
}

}  // namespace microkernel::MICROKERNEL_LEVEL
