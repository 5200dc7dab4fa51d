// Arithmetic of ranges: what an index is at least and at most.
#pragma once

#include "indices.h"

#include <algorithm>
#include <limits>

namespace loopir {

inline constexpr int64_t infinity = std::numeric_limits<int64_t>::max();

inline int64_t saturated_add(int64_t a, int64_t b) {
  int64_t out;
  if (!__builtin_add_overflow(a, b, &out)) return out;
  return b > 0 ? infinity : -infinity;
}
inline int64_t saturated_multiply(int64_t a, int64_t b) {
  int64_t out;
  if (!__builtin_mul_overflow(a, b, &out)) return out;
  return (a > 0) == (b > 0) ? infinity : -infinity;
}
inline bool is_infinite(int64_t a) { return a >= infinity || a <= -infinity; }

/// 0 where b is 0: a size that is 0 has no elements, and traps nobody.
inline int64_t floor_of(int64_t a, int64_t b) {
  if (b == 0) return 0;
  int64_t q = a / b;
  return q - (a % b != 0 && (a < 0) != (b < 0));
}

inline Range times(Range a, Range b) {
  int64_t p[] = {saturated_multiply(a.lower, b.lower), saturated_multiply(a.lower, b.upper),
                 saturated_multiply(a.upper, b.lower), saturated_multiply(a.upper, b.upper)};
  return {*std::min_element(p, p + 4), *std::max_element(p, p + 4)};
}

inline Range over(Range a, Range b) {
  if (b.lower <= 0) return {-infinity, infinity};
  int64_t lower =
      is_infinite(a.lower) ? a.lower : floor_of(a.lower, a.lower < 0 ? b.lower : b.upper);
  int64_t upper =
      is_infinite(a.upper) ? a.upper : floor_of(a.upper, a.upper < 0 ? b.upper : b.lower);
  return {lower, upper};
}

inline Range rest(Range a, Range b) {
  if (b.lower <= 0) return {-infinity, infinity};
  if (a.lower >= 0 && a.upper < b.lower) return a;
  return {0, is_infinite(b.upper) ? infinity : b.upper - 1};
}

}  // namespace loopir
