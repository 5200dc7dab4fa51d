// Conversions between bf16, as bits, and f32.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace onednn {

inline float from_bf16(uint16_t bits) { return std::bit_cast<float>(uint32_t{bits} << 16); }

/// To the nearest, ties to even; NaN stays NaN.
inline uint16_t to_bf16(float value) {
  auto bits = std::bit_cast<uint32_t>(value);
  if (std::isnan(value)) return static_cast<uint16_t>(bits >> 16 | 0x40);
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

}  // namespace onednn
