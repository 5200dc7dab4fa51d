// The normal form of indices in codegen/loopir: rules by name, then random indices beside plain
// arithmetic.
#include <gtest/gtest.h>

#include "codegen/loopir/indices.h"

#include <map>
#include <random>

namespace loopir {
namespace {

TEST_F(IndexExpressions, OrderOfTermsAndFactorsMakesNoDifference) {
  Id i = variable(8), j = variable(9);
  EXPECT_EQ(x.add(i, x.add(j, s)), x.add(x.add(s, i), j));
  EXPECT_EQ(x.multiply(i, x.multiply(j, s)), x.multiply(x.multiply(s, i), j));
  EXPECT_EQ(x.multiply(x.add(i, s), x.subtract(i, s)),
            x.subtract(x.multiply(i, i), x.multiply(s, s)));
}

TEST_F(IndexExpressions, TermsCancel) {
  Id i = variable(8), j = variable(9), product = x.multiply(s, i);
  EXPECT_EQ(x.subtract(x.add(product, j), product), j);
  EXPECT_EQ(x.subtract(x.multiply(s, t), x.multiply(t, s)), number(0));
}

TEST_F(IndexExpressions, AVariableOfExtentOneIsZero) { EXPECT_EQ(variable(1), number(0)); }

TEST_F(IndexExpressions, DivisionByTheSizeOfTheFastestDigitGivesTheOthers) {
  Id i = variable(5), j = variable(8), index = x.add(times(8, i), j);
  EXPECT_EQ(x.floordiv(index, number(8)), i);
  EXPECT_EQ(x.mod(index, number(8)), j);
}

TEST_F(IndexExpressions, DivisionKeepsADigitThatMayCarry) {
  Id i = variable(5), j = variable(9), index = x.add(times(8, i), j);
  EXPECT_EQ(x.floordiv(index, number(8)), x.add(i, x.floordiv(j, number(8))));
  EXPECT_NE(x.floordiv(index, number(8)), i);
  EXPECT_EQ(x.mod(index, number(8)), x.mod(j, number(8)));
}

TEST_F(IndexExpressions, DivisionBySymbolsIsResolved) {
  Id i = variable(5), j = x.variable(s), k = x.variable(t);
  Id rows = x.add(x.multiply(s, i), j), index = x.add(x.multiply(rows, t), k);
  EXPECT_EQ(x.floordiv(rows, s), i);
  EXPECT_EQ(x.mod(rows, s), j);
  EXPECT_EQ(x.floordiv(index, t), rows);
  EXPECT_EQ(x.mod(index, t), k);
  EXPECT_EQ(x.floordiv(index, x.multiply(s, t)), i);
  EXPECT_EQ(x.floordiv(times(6, x.multiply(s, t)), times(2, s)), times(3, t));
}

TEST_F(IndexExpressions, DivisionsFoldIntoOne) {
  Id i = variable(100);
  EXPECT_EQ(x.floordiv(x.floordiv(i, number(2)), number(3)), x.floordiv(i, number(6)));
  EXPECT_EQ(x.floordiv(x.add(times(2, i), number(4)), number(6)),
            x.floordiv(x.add(i, number(2)), number(3)));
  EXPECT_EQ(x.floordiv(number(-7), number(2)), number(-4));
  EXPECT_EQ(x.mod(number(-7), number(2)), number(1));
}

TEST_F(IndexExpressions, DigitsThatWereTakenApartAreOneNumberAgain) {
  Id i = x.variable(times(2, s)), j = variable(96), flat = x.add(times(96, i), j);
  // The rows of (2 s, 96) as (2, s, 96) and back.
  Id batch = x.floordiv(i, s), row = x.mod(i, s);
  EXPECT_EQ(x.add(x.add(times(96, x.multiply(s, batch)), times(96, row)), j), flat);
  EXPECT_EQ(x.add(times(4, x.floordiv(j, number(4))), x.mod(j, number(4))), j);
  Id deep = x.floordiv(x.floordiv(i, s), t);
  EXPECT_EQ(x.add(x.multiply(x.multiply(s, t), deep), x.add(x.multiply(s, x.mod(batch, t)), row)),
            i);
}

TEST_F(IndexExpressions, DigitsOfOtherNumbersStayApart) {
  Id i = x.variable(times(2, s)), j = x.variable(times(2, s));
  EXPECT_NE(x.add(x.multiply(s, x.floordiv(i, s)), x.mod(j, s)), i);
  EXPECT_NE(x.add(x.multiply(t, x.floordiv(i, s)), x.mod(i, s)), i);
  EXPECT_NE(x.add(times(2, x.multiply(s, x.floordiv(i, s))), x.mod(i, s)), i);
}

TEST_F(IndexExpressions, AreComparedByTheBoundsOfSymbols) {
  Id i = x.variable(s), j = x.variable(t);
  EXPECT_TRUE(x.is_less(i, s));
  EXPECT_FALSE(x.is_less(x.add(i, number(1)), s));
  EXPECT_TRUE(x.is_less(x.add(x.multiply(i, t), j), x.multiply(s, t)));
  EXPECT_FALSE(x.is_less(x.add(x.multiply(i, t), j), x.multiply(s, s)));
  EXPECT_TRUE(x.is_less(number(1), s));
  EXPECT_FALSE(x.is_less(number(1), t));
  EXPECT_TRUE(x.is_less(s, number(101)));
  EXPECT_TRUE(x.is_less(x.mod(j, s), s));
  EXPECT_TRUE(x.is_less(x.subtract(s, x.add(i, number(1))), s));
}

TEST_F(IndexExpressions, OfTwoBoundsTheOneThatHoldsIsTaken) {
  Id i = variable(8);
  EXPECT_EQ(x.minimum(i, number(8)), i);
  EXPECT_EQ(x.maximum(i, number(-1)), i);
  EXPECT_EQ(x.maximum(i, number(8)), number(8));
  EXPECT_EQ(x.minimum(i, s), x.minimum(s, i));
}

TEST_F(IndexExpressions, TellHowFarAVariableMovesThem) {
  Id i = variable(8), j = variable(9);
  Id index = x.add(times(3, x.multiply(i, s)), x.add(j, number(7)));
  EXPECT_EQ(x.coefficient(index, i), times(3, s));
  EXPECT_EQ(x.coefficient(index, j), number(1));
  EXPECT_EQ(x.coefficient(j, i), number(0));
  EXPECT_EQ(x.coefficient(x.multiply(i, i), i), std::nullopt);
  EXPECT_EQ(x.coefficient(x.add(i, x.floordiv(i, number(3))), i), std::nullopt);
  EXPECT_EQ(x.coefficient(x.multiply(i, x.floordiv(j, number(3))), i), x.floordiv(j, number(3)));
}

TEST_F(IndexExpressions, SubstitutionBringsThemIntoNormalForm) {
  Id n = variable(40), i = variable(5), j = variable(8);
  Id index = x.add(times(100, x.floordiv(n, number(8))), x.mod(n, number(8)));
  EXPECT_EQ(x.substitute_index(index, {{n, x.add(times(8, i), j)}}), x.add(times(100, i), j));
}

// ---- random indices

/// Values for symbols and variables.
struct Point {
  std::vector<int64_t> symbols;
  std::map<Id, int64_t> variables;
};

int64_t floor_of(int64_t a, int64_t b) { return a / b - (a % b != 0 && (a < 0) != (b < 0)); }

int64_t combined(IndexKind kind, int64_t a, int64_t b) {
  switch (kind) {
    case IndexKind::sum:
      return a + b;
    case IndexKind::product:
      return a * b;
    case IndexKind::floordiv:
      return floor_of(a, b);
    case IndexKind::mod:
      return a - floor_of(a, b) * b;
    case IndexKind::min:
      return std::min(a, b);
    default:
      return std::max(a, b);
  }
}

int64_t value_at(const Expressions& x, Id i, const Point& point) {
  const IndexNode& n = x.index_at(i);
  if (n.kind == IndexKind::constant) return n.number;
  if (n.kind == IndexKind::symbol) return point.symbols[static_cast<size_t>(n.number)];
  if (n.kind == IndexKind::variable) return point.variables.at(i);
  bool has_number = n.kind == IndexKind::sum || n.kind == IndexKind::product;
  int64_t out = has_number ? n.number : value_at(x, n.operands[0], point);
  for (size_t k = has_number ? 0 : 1; k < n.operands.size(); ++k)
    out = combined(n.kind, out, value_at(x, n.operands[k], point));
  return out;
}

/// Builds indices and, beside them, what plain arithmetic makes of them at some points.
class RandomIndices {
 public:
  struct Checked {
    Id id;
    std::vector<int64_t> values;  // by point
  };

  explicit RandomIndices(uint64_t seed) : points(12), random_(seed) {
    for (const char* name : {"s", "t"}) x.symbols.push_back(symbol_from(1, 12, name));
    for (Point& point : points) point.symbols = {1 + below(12), 1 + below(12)};
    while (variables.size() < 3) add_variable();
  }

  Checked make(int depth) {
    if (depth == 0) return leaf();
    Checked a = make(depth - 1);
    switch (below(9)) {
      case 8:
        return digits_of(a);
      case 0:
        return joined(IndexKind::product, &Expressions::multiply, a, make(depth - 1));
      case 1:
      case 2:
        return joined(IndexKind::floordiv, &Expressions::floordiv, a, size());
      case 3:
      case 4:
        return joined(IndexKind::mod, &Expressions::mod, a, size());
      case 5:
        return joined(IndexKind::min, &Expressions::minimum, a, make(depth - 1));
      case 6:
        return joined(IndexKind::max, &Expressions::maximum, a, make(depth - 1));
      default:
        return joined(IndexKind::sum, &Expressions::add, a, make(depth - 1));
    }
  }

  int64_t below(int64_t n) { return std::uniform_int_distribution<int64_t>(0, n - 1)(random_); }

  Expressions x;
  std::vector<Point> points;
  std::vector<Checked> variables;

 private:
  using Operation = Id (Expressions::*)(Id, Id);
  Checked joined(IndexKind kind, Operation operation, const Checked& a, const Checked& b) {
    Checked out{(x.*operation)(a.id, b.id), {}};
    for (size_t p = 0; p < points.size(); ++p)
      out.values.push_back(combined(kind, a.values[p], b.values[p]));
    return out;
  }
  /// Taken apart into two digits, of which the slow one has the right factor, mostly.
  Checked digits_of(const Checked& a) {
    Checked n = size(), factor = below(4) ? n : size();
    Checked slow = joined(IndexKind::floordiv, &Expressions::floordiv, a, n);
    Checked fast = joined(IndexKind::mod, &Expressions::mod, a, n), scale = size();
    slow = joined(IndexKind::product, &Expressions::multiply, slow, factor);
    slow = joined(IndexKind::product, &Expressions::multiply, slow, scale);
    fast = joined(IndexKind::product, &Expressions::multiply, fast, scale);
    return joined(IndexKind::sum, &Expressions::add, slow, fast);
  }
  Checked filled(Id id) {
    Checked out{id, {}};
    for (const Point& point : points) out.values.push_back(value_at(x, id, point));
    return out;
  }
  /// What is divided by: sizes are positive.
  Checked size() {
    Id n = x.constant(1 + below(9));
    if (below(2) == 0) return filled(n);
    Id symbol = x.symbol(static_cast<uint32_t>(below(2)));
    return filled(below(3) == 0 ? x.multiply(symbol, n) : symbol);
  }
  Checked leaf() {
    if (below(5) == 0) return filled(x.constant(below(21) - 10));
    if (below(4) == 0) return size();
    Checked variable = variables[static_cast<size_t>(below(3))];
    return below(2) ? variable
                    : joined(IndexKind::product, &Expressions::multiply, variable, size());
  }
  void add_variable() {
    Checked extent = size();
    Id id = x.variable(extent.id);
    if (x.number_of(id)) return;
    for (size_t p = 0; p < points.size(); ++p) points[p].variables[id] = below(extent.values[p]);
    variables.push_back(filled(id));
  }
  std::mt19937_64 random_;
};

constexpr uint64_t n_seeds = 2000;

TEST(RandomIndices, HaveTheValueOfPlainArithmetic) {
  for (uint64_t seed = 0; seed < n_seeds; ++seed) {
    RandomIndices random(seed);
    RandomIndices::Checked index = random.make(1 + static_cast<int>(seed % 4));
    for (size_t p = 0; p < random.points.size(); ++p)
      ASSERT_EQ(value_at(random.x, index.id, random.points[p]), index.values[p])
          << "seed " << seed << ", point " << p << ": " << random.x.text_of_index(index.id);
  }
}

TEST(RandomIndices, LieInTheirRange) {
  for (uint64_t seed = 0; seed < n_seeds; ++seed) {
    RandomIndices random(seed);
    RandomIndices::Checked index = random.make(1 + static_cast<int>(seed % 4));
    Range range = random.x.range(index.id);
    for (int64_t value : index.values)
      ASSERT_TRUE(range.lower <= value && value <= range.upper)
          << "seed " << seed << ": " << value << " is " << random.x.text_of_index(index.id);
  }
}

TEST(RandomIndices, AreLessEverywhereWhereIsLessSaysSo) {
  int found = 0;
  for (uint64_t seed = 0; seed < n_seeds; ++seed) {
    RandomIndices random(seed);
    int depth = static_cast<int>(seed % 3);
    RandomIndices::Checked a = random.make(depth), b = random.make(depth);
    if (!random.x.is_less(a.id, b.id)) continue;
    ++found;
    for (size_t p = 0; p < random.points.size(); ++p)
      ASSERT_LT(a.values[p], b.values[p]) << "seed " << seed << ": " << random.x.text_of_index(a.id)
                                          << " < " << random.x.text_of_index(b.id);
  }
  EXPECT_GT(found, 100);
}

TEST(RandomIndices, MoveByTheCoefficientOfAVariable) {
  int found = 0;
  for (uint64_t seed = 0; seed < n_seeds; ++seed) {
    RandomIndices random(seed);
    Id index = random.make(1 + static_cast<int>(seed % 4)).id, variable = random.variables[0].id;
    auto coefficient = random.x.coefficient(index, variable);
    if (!coefficient) continue;
    ++found;
    for (Point point : random.points) {
      int64_t step = value_at(random.x, *coefficient, point),
              before = value_at(random.x, index, point);
      ++point.variables[variable];
      ASSERT_EQ(value_at(random.x, index, point), before + step)
          << "seed " << seed << ": " << random.x.text_of_index(index);
    }
  }
  EXPECT_GT(found, 100);
}

TEST(RandomIndices, KeepTheirValueUnderSubstitution) {
  for (uint64_t seed = 0; seed < n_seeds; ++seed) {
    RandomIndices random(seed);
    Id index = random.make(1 + static_cast<int>(seed % 4)).id, variable = random.variables[0].id;
    // Inside of the variable's extent, on which the normal form relies.
    Id other = random.x.floordiv(variable, random.x.constant(2));
    Id replaced = random.x.substitute_index(index, {{variable, other}});
    for (Point point : random.points) {
      int64_t found = value_at(random.x, replaced, point);
      point.variables[variable] /= 2;
      ASSERT_EQ(found, value_at(random.x, index, point))
          << "seed " << seed << ": " << random.x.text_of_index(index);
    }
  }
}

}  // namespace
}  // namespace loopir
