// Interval arithmetic, exhaustively over small intervals and at the ends of int64_t.
#include "core/sym/sym_range.h"

#include "core/sym/sym_eval.h"

#include <gtest/gtest.h>

#include <vector>

namespace tenon {
namespace {

constexpr int64_t inf = Range::no_upper;

std::vector<Range> small_ranges() {
  std::vector<Range> out;
  for (int64_t lo = -4; lo <= 4; ++lo)
    for (int64_t hi = lo; hi <= 4; ++hi) out.push_back({lo, hi});
  return out;
}

/// Every result of `op` lies in the interval; division by zero has none.
void expect_holds_all(SymOp op, Range (*combine)(Range, Range)) {
  for (Range a : small_ranges())
    for (Range b : small_ranges()) {
      Range result = combine(a, b);
      for (int64_t x = a.lo; x <= a.hi; ++x)
        for (int64_t y = b.lo; y <= b.hi; ++y) {
          SymValue args[] = {SymValue::of_int(x), SymValue::of_int(y)};
          auto value = apply_op(op, args);
          ASSERT_TRUE(!value || result.contains(value->integer()))
              << x << ", " << y << " gives " << value->integer() << ", not in " << to_text(result);
        }
    }
}

TEST(SymRange, HoldsEveryResult) {
  expect_holds_all(SymOp::add, add_ranges);
  expect_holds_all(SymOp::mul, multiply_ranges);
  expect_holds_all(SymOp::floordiv, floordiv_ranges);
  expect_holds_all(SymOp::ceildiv, ceildiv_ranges);
  expect_holds_all(SymOp::mod, mod_ranges);
  expect_holds_all(SymOp::min, min_ranges);
  expect_holds_all(SymOp::max, max_ranges);
}

TEST(SymRange, IsTightForSums) {
  EXPECT_EQ(add_ranges({2, 5}, {-1, 7}), (Range{1, 12}));
  EXPECT_EQ(multiply_ranges({-2, 3}, {4, 5}), (Range{-10, 15}));
  EXPECT_EQ(floordiv_ranges({7, 9}, {2, 2}), (Range{3, 4}));
  EXPECT_EQ(power_range({-3, 2}, 2), (Range{0, 9}));
}

TEST(SymRange, UnboundedSidesStayUnbounded) {
  EXPECT_EQ(add_ranges(Range::at_least(2), {1, 1}), Range::at_least(3));
  EXPECT_EQ(multiply_ranges(Range::at_least(2), {0, 3}), Range::at_least(0));
  EXPECT_EQ(multiply_ranges(Range::at_least(2), {-1, -1}), (Range{Range::no_lower, -2}));
  EXPECT_EQ(floordiv_ranges(Range::at_least(6), {2, 2}), Range::at_least(3));
  EXPECT_EQ(floordiv_ranges({6, 9}, Range::at_least(2)), (Range{0, 4}));
  EXPECT_EQ(mod_ranges({-5, inf}, Range::at_least(3)), Range::at_least(0));
  EXPECT_EQ(negate_range(Range::at_least(2)), (Range{Range::no_lower, -2}));
}

TEST(SymRange, OverflowBecomesUnbounded) {
  EXPECT_EQ(add_ranges({inf - 1, inf - 1}, {5, 5}).hi, inf);
  EXPECT_EQ(multiply_ranges({int64_t{1} << 40, int64_t{1} << 40}, {2, int64_t{1} << 40}).hi, inf);
}

TEST(SymRange, ReadsWell) {
  EXPECT_EQ(to_text(Range{2, 16}), "[2, 16]");
  EXPECT_EQ(to_text(Range{}), "[-inf, inf]");
}

}  // namespace
}  // namespace tenon
