// The functions that networks call most, with AVX-512: whole vectors, and its own instructions.
//
// Problem: exponents take a third of the instructions of exp(), and a division of a vector as long
//   as ten of its products; compilers find neither of the instructions that save them.
// Method: vscalefps multiplies by 2^n, rounded once, where results are subnormal too. A quotient is
//   that of vrcp14ps, brought to 28 bits by one step of Newton's, and put right by what it leaves.
//   The polynomials are those of functions.h.
// Cost: 13 instructions for exp, 18 for sigmoid, 24 for tanh; 0.2 to 0.4 ns an element.
// Errors: as in functions.h.
#pragma once

#if defined(__AVX512F__)

namespace blocks::BLOCKS_LEVEL {

BLOCKS_INLINE Vector all(float x) { return x - Vector{}; }
BLOCKS_INLINE Vector fused(Vector x, Vector y, Vector z) { return _mm512_fmadd_ps(x, y, z); }
template <int n>
BLOCKS_INLINE Vector polynomial(Vector x, const float (&c)[n]) {
  Vector sum = all(c[n - 1]);
#pragma GCC unroll 12
  for (int i = n - 2; i >= 0; --i) sum = fused(sum, x, all(c[i]));
  return sum;
}
// Of NaN the instructions give the second operand.
BLOCKS_INLINE Vector at_least(Vector x, float low) { return _mm512_max_ps(all(low), x); }
BLOCKS_INLINE Vector at_most(Vector x, float high) { return _mm512_min_ps(all(high), x); }
BLOCKS_INLINE Vector quotient(Vector x, Vector y) {
  Vector part = _mm512_rcp14_ps(y);
  part = fused(part, _mm512_fnmadd_ps(part, y, all(1)), part);
  Vector q = x * part;
  return fused(_mm512_fnmadd_ps(q, y, x), part, q);
}

/// exp of numbers that are not NaN, within the limits of exponents.
BLOCKS_INLINE Vector exp_within(Vector x) {
  constexpr float terms[] = {1.0f,          1.0f,           0.49999994f,   0.166665167f,
                             0.0416681021f, 0.00836919248f, 0.00138388935f};
  Vector n = _mm512_roundscale_ps(x * 0x1.715476p+0f, _MM_FROUND_TO_NEAREST_INT);
  Vector r = _mm512_fnmadd_ps(n, all(0x1.62e4p-1f), x);
  r = _mm512_fnmadd_ps(n, all(0x1.7f7d1cp-20f), r);
  return _mm512_scalef_ps(polynomial(r, terms), n);
}

struct ExpVector {
  BLOCKS_INLINE Vector run(Vector x) { return exp_within(at_most(at_least(x, -104), 89)); }
};
struct SigmoidVector {
  BLOCKS_INLINE Vector run(Vector x) {
    Vector e = exp_within(at_least(_mm512_or_ps(x, all(-0.0f)), -104)), sum = e + 1;
    Vector part = _mm512_rcp14_ps(sum);
    part = fused(part, _mm512_fnmadd_ps(part, sum, all(1)), part);
    return x < 0 ? e * part : part;
  }
};
/// -expm1(-2|x|) / (expm1(-2|x|) + 2), with the sign of x.
struct TanhVector {
  BLOCKS_INLINE Vector run(Vector x) {
    constexpr float terms[] = {0.49999997f, 0.16666542f, 0.0416675955f, 0.00836667884f,
                               0.00138581556f};
    Vector z = at_least(_mm512_abs_ps(x) * -2.0f, -20);  // beyond the result is 1
    Vector n = _mm512_roundscale_ps(z * 0x1.715476p+0f, _MM_FROUND_TO_NEAREST_INT);
    Vector r = _mm512_fnmadd_ps(n, all(0x1.62e4p-1f), z);
    r = _mm512_fnmadd_ps(n, all(0x1.7f7d1cp-20f), r);
    Vector power = _mm512_scalef_ps(all(1), n);
    Vector less_one = fused(fused(r * r, polynomial(r, terms), r), power, power - 1);
    Vector result = quotient(less_one, less_one + 2);
    return _mm512_or_ps(_mm512_abs_ps(result), _mm512_and_ps(x, all(-0.0f)));
  }
};

/// What is left behind whole vectors goes through one with zeros.
template <class F>
void by_vectors(void* out, const void* a, const void*, const void*, int64_t n) {
  auto* to = static_cast<float*>(out);
  auto* x = static_cast<const float*>(a);
  int64_t i = 0;
#pragma GCC unroll 2
  for (; i + lanes <= n; i += lanes) {
    Vector all_of = *reinterpret_cast<const InMemory*>(x + i);
    *reinterpret_cast<InMemory*>(to + i) = F::run(all_of);
  }
  if (i == n) return;
  auto rest = static_cast<__mmask16>((1u << (n - i)) - 1);
  _mm512_mask_storeu_ps(to + i, rest, F::run(_mm512_maskz_loadu_ps(rest, x + i)));
}

/// The loop of such a function; else null.
template <class T>
Apply vector_loop(uint16_t code) {
  if constexpr (sizeof(T) == sizeof(double)) return nullptr;
  return code == TN_F_EXP       ? by_vectors<ExpVector>
         : code == TN_F_SIGMOID ? by_vectors<SigmoidVector>
         : code == TN_F_TANH    ? by_vectors<TanhVector>
                                : nullptr;
}

}  // namespace blocks::BLOCKS_LEVEL

#else

namespace blocks::BLOCKS_LEVEL {

template <class T>
Apply vector_loop(uint16_t) {
  return nullptr;
}

}  // namespace blocks::BLOCKS_LEVEL

#endif
