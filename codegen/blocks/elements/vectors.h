// The functions that networks call most, with AVX-512: whole vectors, and its own instructions.
//
// Problem: exponents take a third of the instructions of exp(), and a division of a vector as long
//   as ten of its products; compilers find neither of the instructions that save them.
// Method: vscalefps multiplies by 2^n, rounded once, where results are subnormal too. vrcp14ps
//   gives a quotient of 14 bits; what it leaves of the dividend, the divisor being 1 + e or 2 + m
//   without rounding, gives the others. exp(r) 2^(k/16) needs three terms where 2^(k/16) comes from
//   a register by vpermps; tanh has the polynomial of functions.h.
// Cost: 12 instructions for exp, 20 for sigmoid, 21 for tanh: 0.14, 0.24 and 0.31 ns an element
//   (Zen 4).
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
BLOCKS_INLINE Vector with_sign_of(Vector x, Vector sign) {
  constexpr int choose =
      0xca;  // bits of the second where those of the first are set, else of the third
  __m512i mask = _mm512_set1_epi32(INT32_MIN);
  return _mm512_castsi512_ps(
      _mm512_ternarylogic_epi32(mask, _mm512_castps_si512(sign), _mm512_castps_si512(x), choose));
}

/// 2^(k / 16).
alignas(vector_bytes) inline constexpr float sixteenths[] = {
    1.0f,        1.04427373f, 1.09050775f, 1.13878858f, 1.18920708f, 1.24185777f,
    1.29683959f, 1.35425556f, 1.41421354f, 1.47682619f, 1.54221082f, 1.61049032f,
    1.68179286f, 1.75625217f, 1.8340081f,  1.91520655f};

/// exp of numbers that are not NaN, within the limits of exponents.
BLOCKS_INLINE Vector exp_within(Vector x) {
  constexpr float place = 0x1.8p19f;  // where a number's last bit is a sixteenth
  Vector shifted = fused(x, all(0x1.715476p+0f), all(place)), n = shifted - place;
  Vector r = _mm512_fnmadd_ps(n, all(0x1.62e4p-1f), x);
  r = _mm512_fnmadd_ps(n, all(0x1.7f7d1cp-20f), r);
  Vector power = _mm512_permutexvar_ps(_mm512_castps_si512(shifted), _mm512_load_ps(sixteenths));
  Vector slope = fused(fused(r, all(0.166666672f), all(0.5f)), r, all(1));
  return _mm512_scalef_ps(fused(power * r, slope, power), n);  // by 2 to what n is rounded down to
}

struct ExpVector {
  BLOCKS_INLINE Vector run(Vector x) { return exp_within(at_most(at_least(x, -104), 89)); }
};
/// 1 / (1 + e) or e / (1 + e) with e = exp(-|x|).
struct SigmoidVector {
  BLOCKS_INLINE Vector run(Vector x) {
    Vector e = exp_within(at_least(_mm512_or_ps(x, all(-0.0f)), -104));
    Vector dividend = x < 0 ? e : all(1), part = _mm512_rcp14_ps(e + 1), result = dividend * part;
    Vector left = _mm512_fnmadd_ps(result, e, dividend - result);
    return fused(left, part, result);
  }
};
/// -m / (m + 2) with m = expm1(-2|x|) and the sign of x.
struct TanhVector {
  BLOCKS_INLINE Vector run(Vector x) {
    constexpr float terms[] = {1.99999988f, 1.33332336f, 0.666681528f, 0.267733723f, 0.0886921957f};
    Vector z = at_least(_mm512_or_ps(x, all(-0.0f)), -10);  // beyond the result is 1
    Vector n = _mm512_roundscale_ps(z * 0x1.715476p+1f, _MM_FROUND_TO_NEAREST_INT);
    Vector r = _mm512_fnmadd_ps(n, all(0x1.62e4p-2f), z);
    r = _mm512_fnmadd_ps(n, all(0x1.7f7d1cp-21f), r);
    Vector power = _mm512_scalef_ps(all(1), n);
    Vector less_one = fused(fused(r * r, polynomial(r, terms), r + r), power, power - 1);
    Vector part = _mm512_rcp14_ps(less_one + 2), result = less_one * part;
    // The divisor in two parts: its rounding alone would cost an ulp.
    Vector left = _mm512_fnmadd_ps(result, less_one, _mm512_fnmadd_ps(result, all(2), less_one));
    return with_sign_of(fused(left, part, result), x);
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
