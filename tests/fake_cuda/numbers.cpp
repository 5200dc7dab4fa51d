// Halves by arithmetic, bf16 and tf32 by bits.
#include "numbers.h"

#include <bit>
#include <cmath>

namespace fake_cuda {

namespace {

double half_to_double(uint16_t bits) {
  int exponent = bits >> 10 & 31, fraction = bits & 1023;
  double size = exponent == 31 ? (fraction ? NAN : INFINITY)
                : exponent     ? std::ldexp(1024 + fraction, exponent - 25)
                               : std::ldexp(fraction, -24);
  return bits >> 15 ? -size : size;
}

// To the nearest, ties to even: what nearbyint does.
uint16_t half_of(double value) {
  uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  double size = std::abs(value);
  if (std::isnan(value)) return 0x7e00;
  if (size >= 65520) return sign | 0x7c00;
  if (size < std::ldexp(1, -14))
    return static_cast<uint16_t>(sign | static_cast<int>(std::nearbyint(std::ldexp(size, 24))));
  int exponent = 0;
  double fraction = std::frexp(size, &exponent);
  int steps = static_cast<int>(std::nearbyint(std::ldexp(fraction, 11)));
  return static_cast<uint16_t>(sign | (((exponent + 14) << 10) + steps - 1024));
}

uint16_t bf16_of(float value) {
  auto bits = std::bit_cast<uint32_t>(value);
  if (std::isnan(value)) return 0x7fc0;
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

}  // namespace

double read(const void* base, int64_t at, Number type) {
  switch (type) {
    case Number::f32:
      return static_cast<double>(static_cast<const float*>(base)[at]);
    case Number::f64:
      return static_cast<const double*>(base)[at];
    case Number::f16:
      return half_to_double(static_cast<const uint16_t*>(base)[at]);
    case Number::bf16:
      return static_cast<double>(
          std::bit_cast<float>(uint32_t{static_cast<const uint16_t*>(base)[at]} << 16));
    case Number::boolean:
      return static_cast<const uint8_t*>(base)[at] ? 1 : 0;
  }
  return NAN;
}

void write(void* base, int64_t at, Number type, double value) {
  switch (type) {
    case Number::f32:
      static_cast<float*>(base)[at] = static_cast<float>(value);
      break;
    case Number::f64:
      static_cast<double*>(base)[at] = value;
      break;
    case Number::f16:
      static_cast<uint16_t*>(base)[at] = half_of(value);
      break;
    case Number::bf16:
      static_cast<uint16_t*>(base)[at] = bf16_of(static_cast<float>(value));
      break;
    case Number::boolean:
      static_cast<uint8_t*>(base)[at] = value != 0;
      break;
  }
}

int64_t bytes_of(Number type) {
  return type == Number::f64 ? 8 : type == Number::f32 ? 4 : type == Number::boolean ? 1 : 2;
}

double as_tf32(double value) {
  auto bits = std::bit_cast<uint32_t>(static_cast<float>(value));
  return static_cast<double>(std::bit_cast<float>((bits + 0xfff + (bits >> 13 & 1)) & ~0x1fffu));
}

}  // namespace fake_cuda
