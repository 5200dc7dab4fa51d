// bf16 by AVX512-BF16: one instruction adds the products of two numbers to a sum in f32.
//
// The instruction (VDPBF16PS) takes denormal numbers and gives denormal sums as zero, adds the
// product of the second numbers first and then that of the first, rounds to the nearest after each
// and looks at no control register. Storing in bf16 (VCVTNEPS2BF16) rounds to the nearest even and
// makes denormal numbers zero, too.
#pragma once

#include "lanes.h"

namespace microkernel::MICROKERNEL_LEVEL {

struct Pairs {
  using Number = uint16_t;
  using Sum = float;
  using Row = __m512i;
  static constexpr int step = 2, width = 2 * lane_count;
  static constexpr bool rounds = true;

  static inline Row row(const Number* right, int64_t /*next*/) { return _mm512_loadu_si512(right); }
  static inline Row row_of_one(const Number* right) { return _mm512_loadu_si512(right); }
  static inline Row spread(const Number* left) {
    int32_t pair;
    __builtin_memcpy(&pair, left, sizeof pair);
    return _mm512_set1_epi32(pair);
  }
  /// Of the last number of an odd k, behind which nothing may be read.
  static inline Row spread_one(const Number* left) { return _mm512_set1_epi32(*left); }
  static inline Vector multiply_add(Vector sum, Row a, Row b) {
    return (Vector)_mm512_dpbf16_ps((__m512)sum, (__m512bh)a, (__m512bh)b);
  }

  /// The first n; others are 0.
  static inline Row load_numbers(const Number* p, int64_t n) {
    if (n >= 2 * lane_count) return _mm512_loadu_si512(p);
    return _mm512_maskz_loadu_epi16((1u << n) - 1, p);
  }
  /// The same of half a vector, each in the low half of a lane.
  static inline Row load_halves(const Number* p, int64_t n) {
    if (n >= lane_count)
      return _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i_u*>(p)));
    auto mask = static_cast<__mmask16>((1u << n) - 1);
    return _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(mask, p));
  }
  static inline Vector widened(const Number* p, int64_t n) {
    return (Vector)_mm512_slli_epi32(load_halves(p, n), 16);
  }
  static inline void store_rounded(Number* p, Vector v, int64_t n) {
    auto rounded = (__m256i)_mm512_cvtneps_pbh((__m512)v);
    if (n >= lane_count) return _mm256_storeu_si256(reinterpret_cast<__m256i_u*>(p), rounded);
    _mm256_mask_storeu_epi16(p, static_cast<__mmask16>((1u << n) - 1), rounded);
  }
};

/// The same with a right side that lies by rows: two of them are put together at each step.
struct PairsOfRows : Pairs {
  static constexpr int width = lane_count;

  static inline Row row(const Number* right, int64_t next) {
    constexpr uint64_t first = 0x0011'0001'0010'0000, step = 0x0002'0002'0002'0002;
    const __m512i places = {static_cast<int64_t>(first),
                            static_cast<int64_t>(first + step),
                            static_cast<int64_t>(first + 2 * step),
                            static_cast<int64_t>(first + 3 * step),
                            static_cast<int64_t>(first + 4 * step),
                            static_cast<int64_t>(first + 5 * step),
                            static_cast<int64_t>(first + 6 * step),
                            static_cast<int64_t>(first + 7 * step)};
    __m512i both = _mm512_inserti64x4(_mm512_castsi256_si512(half(right)), half(right + next), 1);
    return _mm512_permutexvar_epi16(places, both);
  }
  static inline Row row_of_one(const Number* right) { return load_halves(right, lane_count); }

 private:
  static inline __m256i half(const Number* p) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i_u*>(p));
  }
};

}  // namespace microkernel::MICROKERNEL_LEVEL
