// exp of numbers that are not positive, by lanes.
//
// Method: exp(x) = 2^n exp(r), x = n ln 2 + r with |r| <= ln 2 / 2; exp(r) by a polynomial of
// degree 6 whose coefficients tools/fit_math.py prints (exp); 2^n by adding to the exponent. Below
// -87.3, where results would be subnormal, 0. Error: 1 ulp. NaN stays.
#pragma once

#include "lanes.h"

namespace microkernel::MICROKERNEL_LEVEL {

/// exp(x) = 2^n (1 + near), of which n waits in the low bits of `shifted`.
struct ExpParts {
  Vector near, shifted;
};
static inline ExpParts exp_parts(Vector x) {
  constexpr float terms[] = {0.49999994f, 0.166665167f, 0.0416681021f, 0.00836919248f,
                             0.00138388935f};
  constexpr float integer_place = 0x1.8p23f;
  Vector shifted = x * 0x1.715476p+0f + integer_place;
  Vector n = shifted - integer_place;
  Vector r = x - n * 0x1.62e4p-1f - n * 0x1.7f7d1cp-20f;  // the first product is exact
  Vector high = terms[4] * r + terms[3];
  for (int i = 2; i >= 0; --i) high = high * r + terms[i];
  return {(high * r + 1) * r, shifted};
}

/// -|x|
static inline Vector not_positive(Vector x) {
  typedef uint32_t Bits __attribute__((vector_size(sizeof(Vector))));
  return reinterpret_cast<Vector>(reinterpret_cast<Bits>(x) | 0x80000000u);
}

/// p 2^n. Without signs: what is out of range may leave the range of integers.
static inline Vector scaled(Vector p, Vector shifted) {
  typedef uint32_t Bits __attribute__((vector_size(sizeof(Vector))));
  Bits exponent = reinterpret_cast<Bits>(shifted) << 23;
  return reinterpret_cast<Vector>(reinterpret_cast<Bits>(p) + exponent);
}

static inline Vector exp_of_negative(Vector x) {
  constexpr float lowest = -87.3f;
  ExpParts e = exp_parts(x);
  return x < lowest ? Vector{} : scaled(e.near + 1, e.shifted);
}

/// exp(x) - 1 with the digits of small x; -1 from -20 on.
static inline Vector expm1_of_negative(Vector x) {
  constexpr float lowest = -20;
  ExpParts e = exp_parts(x < lowest ? repeat(lowest) : x);
  Vector power = scaled(repeat(1.0f), e.shifted);
  return e.near * power + (power - 1);
}

}  // namespace microkernel::MICROKERNEL_LEVEL
