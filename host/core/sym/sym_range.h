// Integer intervals, for what is known about sizes without looking at their values.
#pragma once

#include <cstdint>
#include <limits>
#include <string>

namespace tenon {

/// All integers from lo to hi. The extreme values of int64_t mean "no bound".
struct Range {
  static constexpr int64_t no_lower = std::numeric_limits<int64_t>::min();
  static constexpr int64_t no_upper = std::numeric_limits<int64_t>::max();

  int64_t lo = no_lower;
  int64_t hi = no_upper;

  static constexpr Range at_least(int64_t lo) { return {lo, no_upper}; }
  static constexpr Range only(int64_t value) { return {value, value}; }
  constexpr bool contains(int64_t value) const { return lo <= value && value <= hi; }
  constexpr bool within(const Range& other) const { return other.lo <= lo && hi <= other.hi; }
  constexpr bool is_single() const { return lo == hi; }
  constexpr bool is_empty() const { return lo > hi; }
  constexpr Range intersect(const Range& other) const {
    return {lo > other.lo ? lo : other.lo, hi < other.hi ? hi : other.hi};
  }
  constexpr Range unite(const Range& other) const {
    return {lo < other.lo ? lo : other.lo, hi > other.hi ? hi : other.hi};
  }
  friend constexpr bool operator==(const Range&, const Range&) = default;
};

/// The least interval that holds every result; bounds beyond int64_t become "no bound".
Range add_ranges(Range a, Range b);
Range negate_range(Range a);
Range multiply_ranges(Range a, Range b);
Range power_range(Range base, int64_t exponent);
/// Division rounding down; divisor 0 never occurs.
Range floordiv_ranges(Range a, Range b);
Range ceildiv_ranges(Range a, Range b);
Range mod_ranges(Range a, Range b);
Range min_ranges(Range a, Range b);
Range max_ranges(Range a, Range b);

/// "[2, 16]", "[2, inf]".
std::string to_text(const Range& range);

}  // namespace tenon
