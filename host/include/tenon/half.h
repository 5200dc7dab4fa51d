// SPDX-License-Identifier: Apache-2.0
// 16-bit floating-point numbers: storage types that convert to and from float.
//
// Conversions round to nearest, ties to even, and keep NaN, infinities, signed zeros and
// subnormals. They are plain integer code, so they are constexpr and need no instruction beyond
// x86-64's baseline. Arithmetic is done in float: `float(a) + float(b)`.
#pragma once

#include <bit>
#include <cstdint>
#include <limits>
#include <type_traits>

namespace tenon {

namespace detail {

constexpr uint16_t half_bits(float value) {
  uint32_t f = std::bit_cast<uint32_t>(value);
  uint32_t sign = (f >> 16) & 0x8000u;
  f &= 0x7FFFFFFFu;
  if (f > 0x7F800000u) return static_cast<uint16_t>(sign | 0x7E00u | ((f >> 13) & 0x3FFu));
  // 65520 is halfway between the largest half and the next power of two: it and all above overflow.
  if (f >= 0x477FF000u) return static_cast<uint16_t>(sign | 0x7C00u);
  if (f < 0x38800000u) {
    // Subnormal or zero. 0.5 has half's smallest subnormal, 2^-24, as the unit of its last place,
    // so this addition rounds in hardware and leaves the half's bits in the low mantissa bits.
    float shifted = std::bit_cast<float>(f) + 0.5f;
    return static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(shifted) - 0x3F000000u));
  }
  f -= 0x38000000u;  // exponent bias 127 -> 15
  uint32_t odd = (f >> 13) & 1u;
  return static_cast<uint16_t>(sign | ((f + 0xFFFu + odd) >> 13));
}

constexpr float half_value(uint16_t bits) {
  uint32_t sign = static_cast<uint32_t>(bits & 0x8000u) << 16;
  uint32_t magnitude = static_cast<uint32_t>(bits & 0x7FFFu) << 13;
  if (magnitude >= 0x0F800000u) return std::bit_cast<float>(sign | (magnitude + 0x70000000u));
  if (magnitude >= 0x00800000u) return std::bit_cast<float>(sign | (magnitude + 0x38000000u));
  float subnormal = static_cast<float>(bits & 0x3FFu) * 0x1p-24f;
  return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(subnormal));
}

constexpr uint16_t bfloat16_bits(float value) {
  uint32_t f = std::bit_cast<uint32_t>(value);
  if ((f & 0x7FFFFFFFu) > 0x7F800000u) return static_cast<uint16_t>((f >> 16) | 0x40u);
  return static_cast<uint16_t>((f + 0x7FFFu + ((f >> 16) & 1u)) >> 16);
}

constexpr float bfloat16_value(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

}  // namespace detail

/// IEEE binary16: 11 significant bits, up to 65504.
struct Half {
  uint16_t bits = 0;

  constexpr Half() = default;
  constexpr Half(float value)
      : bits(detail::half_bits(value)) {}  // NOLINT: like float -> half in C
  template <class T>
  requires(std::is_arithmetic_v<T> && !std::is_same_v<T, float>) constexpr explicit Half(T value)
      : Half(static_cast<float>(value)) {}
  constexpr operator float() const { return detail::half_value(bits); }  // NOLINT
  static constexpr Half from_bits(uint16_t bits) {
    Half h;
    h.bits = bits;
    return h;
  }
};

/// The upper half of a float: 8 significant bits, float's range.
struct BFloat16 {
  uint16_t bits = 0;

  constexpr BFloat16() = default;
  constexpr BFloat16(float value) : bits(detail::bfloat16_bits(value)) {}  // NOLINT
  template <class T>
  requires(std::is_arithmetic_v<T> &&
           !std::is_same_v<T, float>) constexpr explicit BFloat16(T value)
      : BFloat16(static_cast<float>(value)) {}
  constexpr operator float() const { return detail::bfloat16_value(bits); }  // NOLINT
  static constexpr BFloat16 from_bits(uint16_t bits) {
    BFloat16 b;
    b.bits = bits;
    return b;
  }
};

static_assert(sizeof(Half) == 2 && sizeof(BFloat16) == 2);

}  // namespace tenon

template <>
struct std::numeric_limits<tenon::Half> {
  static constexpr bool is_specialized = true, is_signed = true, is_integer = false;
  static constexpr bool has_infinity = true, has_quiet_NaN = true;
  static constexpr int digits = 11;
  static constexpr tenon::Half min() { return tenon::Half::from_bits(0x0400); }
  static constexpr tenon::Half max() { return tenon::Half::from_bits(0x7BFF); }
  static constexpr tenon::Half lowest() { return tenon::Half::from_bits(0xFBFF); }
  static constexpr tenon::Half epsilon() { return tenon::Half::from_bits(0x1400); }
  static constexpr tenon::Half infinity() { return tenon::Half::from_bits(0x7C00); }
  static constexpr tenon::Half quiet_NaN() { return tenon::Half::from_bits(0x7E00); }
};

template <>
struct std::numeric_limits<tenon::BFloat16> {
  static constexpr bool is_specialized = true, is_signed = true, is_integer = false;
  static constexpr bool has_infinity = true, has_quiet_NaN = true;
  static constexpr int digits = 8;
  static constexpr tenon::BFloat16 min() { return tenon::BFloat16::from_bits(0x0080); }
  static constexpr tenon::BFloat16 max() { return tenon::BFloat16::from_bits(0x7F7F); }
  static constexpr tenon::BFloat16 lowest() { return tenon::BFloat16::from_bits(0xFF7F); }
  static constexpr tenon::BFloat16 epsilon() { return tenon::BFloat16::from_bits(0x3C00); }
  static constexpr tenon::BFloat16 infinity() { return tenon::BFloat16::from_bits(0x7F80); }
  static constexpr tenon::BFloat16 quiet_NaN() { return tenon::BFloat16::from_bits(0x7FC0); }
};
