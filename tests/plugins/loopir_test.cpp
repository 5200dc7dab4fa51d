// The loop IR of plugins/loopir: the normal form of indices, walking a buffer with other variables,
// the arena, and how loops become vectors.
#include <gtest/gtest.h>
#include <loopir/memory.h>

#include <algorithm>
#include <map>
#include <random>

namespace loopir {
namespace {

Symbol symbol_from(int64_t lower, int64_t upper, std::string name) {
  return {std::max<int64_t>(lower, 4), lower, upper, std::move(name)};
}

struct Indices : ::testing::Test {
  Indices() { x.symbols = {symbol_from(2, 100, "s"), symbol_from(1, 1 << 20, "t")}; }
  Id number(int64_t n) { return x.constant(n); }
  Id variable(int64_t extent) { return x.variable(number(extent)); }
  Id times(int64_t factor, Id i) { return x.multiply(number(factor), i); }

  Expressions x;
  Id s = x.symbol(0), t = x.symbol(1);
};

TEST_F(Indices, OrderOfTermsAndFactorsMakesNoDifference) {
  Id i = variable(8), j = variable(9);
  EXPECT_EQ(x.add(i, x.add(j, s)), x.add(x.add(s, i), j));
  EXPECT_EQ(x.multiply(i, x.multiply(j, s)), x.multiply(x.multiply(s, i), j));
  EXPECT_EQ(x.multiply(x.add(i, s), x.subtract(i, s)),
            x.subtract(x.multiply(i, i), x.multiply(s, s)));
}

TEST_F(Indices, TermsCancel) {
  Id i = variable(8), j = variable(9), product = x.multiply(s, i);
  EXPECT_EQ(x.subtract(x.add(product, j), product), j);
  EXPECT_EQ(x.subtract(x.multiply(s, t), x.multiply(t, s)), number(0));
}

TEST_F(Indices, AVariableOfExtentOneIsZero) { EXPECT_EQ(variable(1), number(0)); }

TEST_F(Indices, DivisionByTheSizeOfTheFastestDigitGivesTheOthers) {
  Id i = variable(5), j = variable(8), index = x.add(times(8, i), j);
  EXPECT_EQ(x.floordiv(index, number(8)), i);
  EXPECT_EQ(x.mod(index, number(8)), j);
}

TEST_F(Indices, DivisionKeepsADigitThatMayCarry) {
  Id i = variable(5), j = variable(9), index = x.add(times(8, i), j);
  EXPECT_EQ(x.floordiv(index, number(8)), x.add(i, x.floordiv(j, number(8))));
  EXPECT_NE(x.floordiv(index, number(8)), i);
  EXPECT_EQ(x.mod(index, number(8)), x.mod(j, number(8)));
}

TEST_F(Indices, DivisionBySymbolsIsResolved) {
  Id i = variable(5), j = x.variable(s), k = x.variable(t);
  Id rows = x.add(x.multiply(s, i), j), index = x.add(x.multiply(rows, t), k);
  EXPECT_EQ(x.floordiv(rows, s), i);
  EXPECT_EQ(x.mod(rows, s), j);
  EXPECT_EQ(x.floordiv(index, t), rows);
  EXPECT_EQ(x.mod(index, t), k);
  EXPECT_EQ(x.floordiv(index, x.multiply(s, t)), i);
  EXPECT_EQ(x.floordiv(times(6, x.multiply(s, t)), times(2, s)), times(3, t));
}

TEST_F(Indices, DivisionsFoldIntoOne) {
  Id i = variable(100);
  EXPECT_EQ(x.floordiv(x.floordiv(i, number(2)), number(3)), x.floordiv(i, number(6)));
  EXPECT_EQ(x.floordiv(x.add(times(2, i), number(4)), number(6)),
            x.floordiv(x.add(i, number(2)), number(3)));
  EXPECT_EQ(x.floordiv(number(-7), number(2)), number(-4));
  EXPECT_EQ(x.mod(number(-7), number(2)), number(1));
}

TEST_F(Indices, AreComparedByTheBoundsOfSymbols) {
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

TEST_F(Indices, OfTwoBoundsTheOneThatHoldsIsTaken) {
  Id i = variable(8);
  EXPECT_EQ(x.minimum(i, number(8)), i);
  EXPECT_EQ(x.maximum(i, number(-1)), i);
  EXPECT_EQ(x.maximum(i, number(8)), number(8));
  EXPECT_EQ(x.minimum(i, s), x.minimum(s, i));
}

TEST_F(Indices, TellHowFarAVariableMovesThem) {
  Id i = variable(8), j = variable(9);
  Id index = x.add(times(3, x.multiply(i, s)), x.add(j, number(7)));
  EXPECT_EQ(x.coefficient(index, i), times(3, s));
  EXPECT_EQ(x.coefficient(index, j), number(1));
  EXPECT_EQ(x.coefficient(j, i), number(0));
  EXPECT_EQ(x.coefficient(x.multiply(i, i), i), std::nullopt);
  EXPECT_EQ(x.coefficient(x.add(i, x.floordiv(i, number(3))), i), std::nullopt);
  EXPECT_EQ(x.coefficient(x.multiply(i, x.floordiv(j, number(3))), i), x.floordiv(j, number(3)));
}

TEST_F(Indices, SubstitutionBringsThemIntoNormalForm) {
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
    switch (below(8)) {
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

// ---- walking a buffer with other variables

struct Unifying : Indices {
  /// A loop over all variables of `index` that stores at it, or that loads from it.
  Group storing(Id index) {
    Loop loop;
    loop.outer = x.variables_of_index(index);
    loop.buffer = 0, loop.index = index;
    loop.value = x.number(1.0, TN_F32);
    return {{loop}};
  }
  Group loading(Id index) {
    Loop loop;
    loop.outer = x.variables_of_index(index);
    loop.buffer = 1, loop.index = x.constant(0);
    loop.value = x.load(0, index, TN_F32);
    return {{loop}};
  }
  std::optional<Unified> unified(Id stored, Id loaded) {
    return unify(x, storing(stored), stored, loading(loaded), loaded);
  }
  /// Expects that what is stored and what is loaded have the same variables and the same index.
  void expect_unified(Id stored, Id loaded, size_t n_variables) {
    auto both = unified(stored, loaded);
    ASSERT_TRUE(both);
    const Loop &a = both->a.loops[0], &b = both->b.loops[0];
    EXPECT_EQ(x.value_at(b.value).b, a.index);
    EXPECT_EQ(sorted(a.outer), sorted(b.outer));
    EXPECT_EQ(a.outer.size(), n_variables);
  }
  static Ids sorted(Ids ids) {
    std::sort(ids.begin(), ids.end());
    return ids;
  }
};

TEST_F(Unifying, OneVariableBecomesTheTwoOfAReshape) {
  Id n = variable(12), b = variable(3), k = variable(4);
  expect_unified(n, x.add(times(4, b), k), 2);
  expect_unified(x.add(times(4, b), k), n, 2);
}

TEST_F(Unifying, SymbolicSizesAreSplit) {
  Id n = x.variable(x.multiply(s, t)), b = x.variable(s), k = x.variable(t);
  expect_unified(n, x.add(x.multiply(b, t), k), 2);
}

TEST_F(Unifying, TwoSplitsMeetInTheirCommonRefinement) {
  Id i = variable(6), j = variable(4), p = variable(3), q = variable(8);
  expect_unified(x.add(times(4, i), j), x.add(times(8, p), q), 3);
}

TEST_F(Unifying, DigitsThatDoNotDivideAreRefused) {
  Id n = variable(12), b = variable(3), k = variable(5);
  EXPECT_FALSE(unified(n, x.add(times(5, b), k)));
  Id i = variable(4), j = variable(6), p = variable(6), q = variable(4);
  EXPECT_FALSE(unified(x.add(times(6, i), j), x.add(times(4, p), q)));
}

TEST_F(Unifying, OtherElementsAreRefused) {
  Id n = variable(12), m = variable(12), few = variable(6);
  EXPECT_FALSE(unified(n, x.add(m, number(1))));  // shifted
  EXPECT_FALSE(unified(n, times(2, m)));          // every second one
  EXPECT_FALSE(unified(n, few));                  // some
  EXPECT_FALSE(unified(n, x.mod(m, number(5))));  // no line
}

// ---- the arena

struct Arena : ::testing::Test {
  Id add_symbolic(Id size) {
    return program.add_buffer({Buffer::Place::temporary, 0, TN_F32, {size}, {one}, ""});
  }
  Id add(int64_t size) { return add_symbolic(program.expressions.constant(size)); }
  MemoryPlan planned(const std::vector<Access>& accesses, std::span<const int64_t> symbols = {}) {
    return plan_memory(program, accesses, symbols, std::vector<bool>(program.buffers.size(), true));
  }
  int64_t bytes(Id buffer, std::span<const int64_t> symbols = {}) {
    return bytes_of(program, program.buffers[buffer], symbols);
  }

  Program program;
  Id one = program.expressions.constant(1);
};

TEST_F(Arena, BytesAreUsedAgainWhenTheirBufferHasBeenRead) {
  Id a = add(1000), b = add(1000), c = add(1000);
  MemoryPlan plan = planned({{{}, {a}}, {{a}, {b}}, {{b}, {c}}});
  EXPECT_EQ(plan.offsets[a], plan.offsets[c]);
  EXPECT_NE(plan.offsets[a], plan.offsets[b]);
  EXPECT_EQ(plan.bytes, plan.lower_bound);
  EXPECT_LT(plan.bytes, plan.naive_bytes);
}

TEST_F(Arena, HoldsWhatItIsAskedFor) {
  Id inside = add(10), outside = add(10);
  std::vector<Access> accesses{{{}, {inside, outside}}};
  MemoryPlan plan = plan_memory(program, accesses, {}, {true, false});
  EXPECT_EQ(plan.offsets[inside], 0);
  EXPECT_EQ(plan.offsets[outside], -1);
  EXPECT_GE(plan.bytes, bytes(inside));
  EXPECT_LT(plan.bytes, bytes(inside) + 256);
}

TEST_F(Arena, FollowsSymbolicSizes) {
  program.expressions.symbols = {symbol_from(1, 1000, "s")};
  Id a = add_symbolic(program.expressions.symbol(0));
  std::vector<int64_t> few{10}, many{1000};
  EXPECT_LT(planned({{{}, {a}}}, few).bytes, 4000);
  EXPECT_GE(planned({{{}, {a}}}, many).bytes, 4000);
}

TEST_F(Arena, BuffersThatLiveAtTheSameTimeDoNotOverlap) {
  std::mt19937_64 random(1);
  auto below = [&](int64_t n) { return std::uniform_int_distribution<int64_t>(0, n - 1)(random); };
  for (int round = 0; round < 100; ++round) {
    program.buffers.clear();
    size_t n_items = 2 + static_cast<size_t>(below(30));
    std::vector<Access> accesses(n_items);
    std::vector<std::pair<int64_t, int64_t>> lives;
    for (int64_t n = 1 + below(40); n > 0; --n) {
      Id buffer = add(below(4) == 0 ? below(3) : below(5000));
      int64_t first = below(int64_t(n_items)), last = first + below(int64_t(n_items) - first);
      accesses[size_t(first)].writes.push_back(buffer);
      accesses[size_t(last)].reads.push_back(buffer);
      lives.emplace_back(first, last);
    }
    MemoryPlan plan = planned(accesses);
    EXPECT_GE(plan.bytes, plan.lower_bound);
    EXPECT_LE(plan.bytes, plan.naive_bytes);
    for (Id a = 0; a < lives.size(); ++a) {
      EXPECT_EQ(plan.offsets[a] % 64, 0);
      EXPECT_LE(plan.offsets[a] + bytes(a), plan.bytes);
      for (Id b = 0; b < a; ++b) {
        bool both_live = lives[a].first <= lives[b].second && lives[b].first <= lives[a].second;
        bool apart = plan.offsets[a] + bytes(a) <= plan.offsets[b] ||
                     plan.offsets[b] + bytes(b) <= plan.offsets[a];
        ASSERT_TRUE(!both_live || apart) << "round " << round << ", buffers " << a << " and " << b;
      }
    }
  }
}

// ---- from a kernel to loops over vectors

struct Nests : ::testing::Test {
  Id variable(int64_t extent) { return x.variable(x.constant(extent)); }
  Id times(int64_t factor, Id i) { return x.multiply(x.constant(factor), i); }
  Kernel copying(Ids variables, Id stored, Id loaded) {
    Statement s;
    s.value = x.load(0, loaded, TN_F32);
    s.buffer = 1, s.index = stored;
    return {std::move(variables), {{{}, {s}}}, {}, "copy", 0, 1};
  }
  Kernel summing(Ids outer, Ids inner, Id stored, Id loaded) {
    Statement s;
    s.fold = Fold::sum, s.folded = 0;
    s.value = x.load(0, loaded, TN_F32);
    s.buffer = 1, s.index = stored;
    return {std::move(outer), {{std::move(inner), {s}}}, {}, "sum", 1, 1};
  }
  Nest made(Kernel kernel) { return make_nest(program, std::move(kernel), 16); }
  int64_t extent(Id variable) { return x.hint(x.extent_of(variable)); }

  Program program;
  Expressions& x = program.expressions;
};

TEST_F(Nests, NeighboursOfContiguousMemoryBecomeOneVariable) {
  Id i = variable(4), j = variable(5), k = variable(6);
  Id index = x.add(times(30, i), x.add(times(6, j), k));
  Nest nest = made(copying({i, j, k}, index, index));
  ASSERT_EQ(nest.kernel.outer.size(), 1u);
  EXPECT_EQ(extent(nest.kernel.outer[0]), 120);
  EXPECT_EQ(nest.lanes, nest.kernel.outer[0]);
  const Statement& s = nest.kernel.stages[0].statements[0];
  EXPECT_EQ(s.index, nest.lanes);
  EXPECT_EQ(x.value_at(s.value).b, nest.lanes);
  EXPECT_EQ(nest.rows, x.constant(1));
}

TEST_F(Nests, SymbolicNeighboursBecomeOneVariable) {
  x.symbols = {symbol_from(2, 100, "s"), symbol_from(2, 100, "t")};
  Id s = x.symbol(0), t = x.symbol(1), i = x.variable(s), j = x.variable(t);
  Id index = x.add(x.multiply(i, t), j);
  Nest nest = made(copying({i, j}, index, index));
  ASSERT_EQ(nest.kernel.outer.size(), 1u);
  EXPECT_EQ(x.extent_of(nest.kernel.outer[0]), x.multiply(s, t));
}

TEST_F(Nests, VariablesOfAPaddedBufferStayApart) {
  Id i = variable(4), j = variable(32);
  Nest nest = made(copying({i, j}, x.add(times(32, i), j), x.add(times(40, i), j)));
  EXPECT_EQ(nest.kernel.outer, (Ids{i, j}));
  EXPECT_EQ(nest.lanes, j);
  EXPECT_EQ(nest.rows, x.constant(4));
}

TEST_F(Nests, ATransposeIsVectorisedAlongItsStores) {
  Id i = variable(32), j = variable(32);
  Nest nest = made(copying({j, i}, x.add(times(32, i), j), x.add(times(32, j), i)));
  EXPECT_EQ(nest.lanes, j);
  EXPECT_EQ(nest.kernel.outer, (Ids{i, j}));
}

TEST_F(Nests, SumsOfRowsHaveTheirLanesInTheRow) {
  Id i = variable(7), j = variable(8), k = variable(16);
  Nest nest = made(summing({i}, {j, k}, i, x.add(times(128, i), x.add(times(16, j), k))));
  EXPECT_EQ(nest.lanes, none);
  const Stage& stage = nest.kernel.stages[0];
  ASSERT_EQ(stage.inner.size(), 1u);
  EXPECT_EQ(extent(stage.inner[0]), 128);
  EXPECT_EQ(nest.lanes_of_stage[0], stage.inner[0]);
}

TEST_F(Nests, SumsOfColumnsHaveAColumnInEachLane) {
  Id i = variable(64), j = variable(64);
  Nest nest = made(summing({j}, {i}, j, x.add(times(64, i), j)));
  EXPECT_EQ(nest.lanes, j);
  EXPECT_EQ(nest.lanes_of_stage[0], none);
  EXPECT_EQ(nest.kernel.stages[0].inner, Ids{i});
}

// ---- fusion

struct Fusing : Nests {
  Id buffer(Buffer::Place place, std::initializer_list<int64_t> sizes) {
    Ids dims, strides;
    int64_t stride = 1;
    for (int64_t size : sizes) dims.push_back(x.constant(size));
    for (size_t d = dims.size(); d-- > 0; stride *= std::data(sizes)[d])
      strides.insert(strides.begin(), x.constant(stride));
    return program.add_buffer({place, 0, TN_F32, dims, strides, ""});
  }
  void add_loop(Ids outer, Ids reduced, Fold fold, Id value, Id to, Id index) {
    program.steps.push_back(
        Loop{std::move(outer), std::move(reduced), fold, value, none, to, index, "loop"});
  }
  std::vector<Item> fused(Id output) {
    program.outputs.push_back({Output::Kind::buffer, {output, x.constant(0), {}, {}}});
    return std::move(fuse(program, {}).items);
  }
  Id exp_of(Id v) { return x.apply(TN_F_EXP, TN_F32, v); }
};

TEST_F(Fusing, ReadersThroughAReshapeAreOneKernel) {
  Id in = buffer(Buffer::Place::input, {12}), between = buffer(Buffer::Place::temporary, {12}),
     out = buffer(Buffer::Place::output, {3, 4});
  Id n = variable(12), b = variable(3), k = variable(4), index = x.add(times(4, b), k);
  add_loop({n}, {}, Fold::none, exp_of(x.load(in, n, TN_F32)), between, n);
  add_loop({b, k}, {}, Fold::none, exp_of(x.load(between, index, TN_F32)), out, index);
  std::vector<Item> items = fused(out);
  ASSERT_EQ(items.size(), 1u);
  const Kernel& kernel = std::get<Kernel>(items[0]);
  ASSERT_EQ(kernel.stages.size(), 1u);
  EXPECT_EQ(kernel.stages[0].statements.size(), 1u);  // what lies between needs no memory
}

TEST_F(Fusing, AFoldAndWhatReadsItAreStagesOfOneKernel) {
  Id in = buffer(Buffer::Place::input, {3, 4}), sum = buffer(Buffer::Place::temporary, {3}),
     out = buffer(Buffer::Place::output, {3, 4});
  Id r = variable(3), k = variable(4), b = variable(3), c = variable(4);
  Id at = x.add(times(4, b), c);
  add_loop({r}, {k}, Fold::sum, x.load(in, x.add(times(4, r), k), TN_F32), sum, r);
  Id quotient = x.apply(TN_F_DIV, TN_F32, x.load(in, at, TN_F32), x.load(sum, b, TN_F32));
  add_loop({b, c}, {}, Fold::none, quotient, out, at);
  std::vector<Item> items = fused(out);
  ASSERT_EQ(items.size(), 1u);
  const Kernel& kernel = std::get<Kernel>(items[0]);
  EXPECT_EQ(kernel.outer.size(), 1u);
  EXPECT_EQ(kernel.stages.size(), 2u);
  EXPECT_EQ(kernel.n_folds, 1u);
}

}  // namespace
}  // namespace loopir
