// Numbers as elements.
#include "elements.h"

#include <tenon/plugin.hpp>

#include <algorithm>
#include <cmath>
#include <limits>

namespace loopir {

namespace {

/// As a number of so many binary digits, normal ones from 2^(lowest - 1) on.
double rounded(double number, int digits, int lowest, double largest) {
  if (number == 0 || !std::isfinite(number)) return number;
  int exponent = 0;
  std::frexp(number, &exponent);
  int last = std::max(exponent, lowest) - digits;
  double out = std::ldexp(std::nearbyint(std::ldexp(number, -last)), last);
  return std::fabs(out) > largest ? std::copysign(INFINITY, out) : out;
}

template <class Int>
Int truncated(double number) {
  constexpr auto lowest = std::numeric_limits<Int>::min();
  constexpr auto limit = -static_cast<double>(lowest);
  return number >= -limit && number < limit ? static_cast<Int>(number) : lowest;
}

}  // namespace

double real_element(double number, int32_t dtype) {
  if (dtype == TN_F64) return number;
  number = static_cast<float>(number);
  if (dtype == TN_F16) return rounded(number, 11, -13, 0x1.ffcp15);
  return dtype == TN_BF16 ? rounded(number, 8, -125, 0x1.fep127) : number;
}

int64_t whole_element(int64_t number, int32_t dtype) {
  switch (dtype) {
    case TN_BOOL:
      return number != 0;
    case TN_U8:
      return static_cast<uint8_t>(number);
    case TN_I8:
      return static_cast<int8_t>(number);
    case TN_I16:
      return static_cast<int16_t>(number);
    case TN_I32:
      return static_cast<int32_t>(number);
    default:
      return number;
  }
}

int64_t whole_element(double number, int32_t dtype) {
  if (dtype == TN_BOOL) return number != 0;
  if (dtype == TN_I64) return truncated<int64_t>(number);
  return whole_element(int64_t{truncated<int32_t>(number)}, dtype);
}

}  // namespace loopir
