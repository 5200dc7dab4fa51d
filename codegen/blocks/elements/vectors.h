// The functions that networks call most, with AVX-512: whole vectors, and its own instructions.
//
// Problem: exponents take a third of the instructions of exp(), and a division of a vector as long
//   as ten of its products; compilers find neither of the instructions that save them.
// Method: vscalefps multiplies by 2^n, rounded once, where results are subnormal too. vrcp14ps
//   gives a quotient of 14 bits; what it leaves of the dividend gives the others. exp(r) 2^(k/16)
//   needs three terms where 2^(k/16) comes from a register by vpermps. Up to |x| = 87 sigmoid is
//   1 / (1 + exp(-x)), whose exponent is an integer's sum; the others, which are rare, are chosen
//   beside it, so that no result depends on its neighbours. tanh has a polynomial of degree 5 for
//   each quarter of an octave, whose coefficients come by vpermt2ps out of two registers each.
// Cost: 12 instructions for exp, 15 for sigmoid, 18 for tanh: 0.14, 0.20 and 0.25 ns an element
//   (Zen 4).
// Errors: exp 2.5 ulp, sigmoid 2.9, tanh 1.9.
#pragma once

#if defined(__AVX512F__)

#include "tanh_pieces.h"

namespace blocks::BLOCKS_LEVEL {

BLOCKS_INLINE Vector all(float x) { return x - Vector{}; }
BLOCKS_INLINE Vector fused(Vector x, Vector y, Vector z) { return _mm512_fmadd_ps(x, y, z); }
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
BLOCKS_INLINE __m512i integers(Vector x) { return _mm512_castps_si512(x); }
BLOCKS_INLINE Vector floats(__m512i x) { return _mm512_castsi512_ps(x); }
BLOCKS_INLINE __m512i magnitude(Vector x) {
  return _mm512_and_si512(integers(x), _mm512_set1_epi32(INT32_MAX));
}

/// 2^(k / 16) less k in the exponent: to add 16 n + k there multiplies by 2^n.
struct Lifted {
  alignas(vector_bytes) uint32_t bits[lanes];
  constexpr Lifted() : bits() {
    for (uint32_t k = 0; k < lanes; ++k)
      bits[k] = __builtin_bit_cast(uint32_t, sixteenths[k]) - (k << 19);
  }
};
inline constexpr Lifted lifted;

struct SigmoidVector {
  /// Of a magnitude, as an integer: a float of 87. Larger ones have exponents beyond those of 2^n.
  static constexpr int last_near = 0x42ae0000;

  BLOCKS_INLINE Vector near(Vector x) {
    constexpr float place = 0x1.8p19f;
    Vector shifted = _mm512_fnmadd_ps(x, all(0x1.715476p+0f), all(place)), n = shifted - place;
    Vector r = fused(n, all(0x1.62e4p-1f), x);  // -x = n ln 2 - r
    r = fused(n, all(0x1.7f7d1cp-20f), r);
    __m512i power_bits =
        _mm512_permutexvar_epi32(integers(shifted), _mm512_load_si512(lifted.bits));
    Vector power = floats(_mm512_add_epi32(power_bits, _mm512_slli_epi32(integers(shifted), 19)));
    Vector slope = fused(fused(r, all(-0.166666672f), all(0.5f)), r, all(-1));
    Vector divisor = fused(power * r, slope, power) + 1, part = _mm512_rcp14_ps(divisor);
    return fused(part, _mm512_fnmadd_ps(divisor, part, all(1)), part);
  }
  /// 1 / (1 + e) or e / (1 + e) with e = exp(-|x|).
  BLOCKS_INLINE Vector anywhere(Vector x) {
    Vector e = exp_within(at_least(_mm512_or_ps(x, all(-0.0f)), -104));
    Vector dividend = x < 0 ? e : all(1), part = _mm512_rcp14_ps(e + 1), result = dividend * part;
    Vector left = _mm512_fnmadd_ps(result, e, dividend - result);
    return fused(left, part, result);
  }
  BLOCKS_INLINE bool are_near(__m512i magnitudes) {
    return _mm512_cmpgt_epi32_mask(magnitudes, _mm512_set1_epi32(last_near)) == 0;
  }
  BLOCKS_INLINE Vector chosen(Vector x) {
    __mmask16 is_far = _mm512_cmpgt_epi32_mask(magnitude(x), _mm512_set1_epi32(last_near));
    return _mm512_mask_mov_ps(near(x), is_far, anywhere(x));
  }
  BLOCKS_INLINE Vector run(Vector x) {
    if (are_near(magnitude(x))) [[likely]]
      return near(x);
    return chosen(x);
  }
};

struct TanhVector {
  BLOCKS_INLINE Vector of_piece(__m512i piece, const float* table) {
    return _mm512_permutex2var_ps(_mm512_load_ps(table), piece, _mm512_load_ps(table + lanes));
  }
  BLOCKS_INLINE Vector run(Vector x) {
    Vector z = at_most(floats(magnitude(x)), 10);         // beyond the result is 1
    constexpr int bits_left_out = 21, first_piece = 496;  // a float's, of which 2^-3 has these
    __m512i piece = _mm512_max_epi32(_mm512_srli_epi32(integers(z), bits_left_out),
                                     _mm512_set1_epi32(first_piece));
    Vector y = z - of_piece(piece, tanh_pieces.at), sum = of_piece(piece, tanh_pieces.terms[5]);
#pragma GCC unroll 5
    for (int i = 4; i >= 0; --i) sum = fused(sum, y, of_piece(piece, tanh_pieces.terms[i]));
    return with_sign_of(sum, x);
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
