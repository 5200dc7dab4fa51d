// Interval arithmetic on int64_t, with the extreme values as "no bound".
#include "core/sym/sym_range.h"

#include <algorithm>
#include <initializer_list>

namespace tenon {

namespace {

using Wide = __int128;
constexpr int64_t no_lower = Range::no_lower, no_upper = Range::no_upper;

bool is_unbounded(int64_t v) { return v == no_lower || v == no_upper; }
int64_t saturate(Wide v) {
  if (v <= no_lower) return no_lower;
  return v >= no_upper ? no_upper : static_cast<int64_t>(v);
}

int64_t add_bounds(int64_t a, int64_t b) {
  if (is_unbounded(a)) return a;
  return is_unbounded(b) ? b : saturate(Wide(a) + b);
}
int64_t multiply_bounds(int64_t a, int64_t b) {
  if (a == 0 || b == 0) return 0;
  if (is_unbounded(a) || is_unbounded(b)) return (a < 0) == (b < 0) ? no_upper : no_lower;
  return saturate(Wide(a) * b);
}
/// Quotient of bounds, b != 0; a finite number by no bound is 0 or -1 when rounded down.
int64_t divide_bounds(int64_t a, int64_t b) {
  if (is_unbounded(a)) return (a < 0) == (b < 0) ? no_upper : no_lower;
  if (is_unbounded(b)) return a == 0 || (a < 0) == (b < 0) ? 0 : -1;
  Wide q = Wide(a) / b;
  return saturate(q - ((Wide(a) % b != 0) && ((a < 0) != (b < 0))));
}

Range hull(std::initializer_list<int64_t> values) {
  auto [lo, hi] = std::minmax(values);
  return {lo, hi};
}

}  // namespace

Range add_ranges(Range a, Range b) { return {add_bounds(a.lo, b.lo), add_bounds(a.hi, b.hi)}; }

Range negate_range(Range a) {
  auto negate = [](int64_t v) { return v == no_lower ? no_upper : v == no_upper ? no_lower : -v; };
  return {negate(a.hi), negate(a.lo)};
}

Range multiply_ranges(Range a, Range b) {
  return hull({multiply_bounds(a.lo, b.lo), multiply_bounds(a.lo, b.hi),
               multiply_bounds(a.hi, b.lo), multiply_bounds(a.hi, b.hi)});
}

Range power_range(Range base, int64_t exponent) {
  if (exponent < 0 || exponent > 64) return {};
  Range result = Range::only(1);
  for (int64_t i = 0; i < exponent; ++i) result = multiply_ranges(result, base);
  if (exponent % 2 == 0) result.lo = std::max<int64_t>(result.lo, 0);
  return result;
}

Range floordiv_ranges(Range a, Range b) {
  if (b.lo <= 0 && b.hi >= 0) {  // both signs: leave out 0
    if (b.lo == 0 && b.hi > 0) return floordiv_ranges(a, {1, b.hi});
    if (b.hi == 0 && b.lo < 0) return floordiv_ranges(a, {b.lo, -1});
    if (b.lo == 0) return {};
    return floordiv_ranges(a, {b.lo, -1}).unite(floordiv_ranges(a, {1, b.hi}));
  }
  return hull({divide_bounds(a.lo, b.lo), divide_bounds(a.lo, b.hi), divide_bounds(a.hi, b.lo),
               divide_bounds(a.hi, b.hi)});
}

Range ceildiv_ranges(Range a, Range b) { return negate_range(floordiv_ranges(negate_range(a), b)); }

Range mod_ranges(Range a, Range b) {
  if (b.lo > 0) {
    if (a.lo >= 0 && a.hi < b.lo) return a;
    int64_t hi = b.hi == no_upper ? no_upper : b.hi - 1;
    return {0, a.lo >= 0 ? std::min(hi, a.hi) : hi};
  }
  if (b.hi < 0) return {b.lo == no_lower ? no_lower : b.lo + 1, 0};
  return {};
}

Range min_ranges(Range a, Range b) { return {std::min(a.lo, b.lo), std::min(a.hi, b.hi)}; }
Range max_ranges(Range a, Range b) { return {std::max(a.lo, b.lo), std::max(a.hi, b.hi)}; }

std::string to_text(const Range& range) {
  auto bound = [](int64_t v) {
    return v == no_lower ? "-inf" : v == no_upper ? "inf" : std::to_string(v);
  };
  return "[" + bound(range.lo) + ", " + bound(range.hi) + "]";
}

}  // namespace tenon
