// The rules of symbolic expressions, one after the other, and all of them against random values.
#include "core/sym/sym_simplify.h"
#include "core/sym/shape_env.h"

#include "core/sym/sym_eval.h"
#include "unit/core/sym_test_support.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

namespace tenon {
namespace {

using test::canonical;
using test::parse;
using test::TestTrace;
using test::text_of;

TEST(SymSimplify, ExpandsAndCollectsSums) {
  EXPECT_EQ(canonical("s0 + s1 + s0"), "2*s0 + s1");
  EXPECT_EQ(canonical("s0 - s0"), "0");
  EXPECT_EQ(canonical("1 + s0 + 2"), "s0 + 3");
  EXPECT_EQ(canonical("(s0 + 1)*(s0 - 1)"), "s0**2 - 1");
  EXPECT_EQ(canonical("s1*s0*s1"), "s0*s1**2");
  EXPECT_EQ(canonical("(s0 + s1)**2"), "s0**2 + 2*s0*s1 + s1**2");
  EXPECT_EQ(parse("2*(s0 + s1) - s1"), parse("s0 + s1 + s0"));
}

TEST(SymSimplify, KeepsProductsOfLargeSumsUnexpanded) {
  std::string sum = "s0";
  for (int i = 1; i < 20; ++i) sum += " + s" + std::to_string(i);
  const Expr* square = parse("(" + sum + ")*(" + sum + ")");
  EXPECT_LE(square->n_operands, 2u);
  EXPECT_EQ(parse("3*(" + sum + ")")->n_operands, 20u);
}

TEST(SymSimplify, FloorDivisionOfConstantsRoundsDown) {
  EXPECT_EQ(canonical("-7 // 2"), "-4");
  EXPECT_EQ(canonical("7 // -2"), "-4");
  EXPECT_EQ(canonical("ceildiv(-7, 2)"), "-3");
}

TEST(SymSimplify, FloorDivisionBySelfAndOneDisappears) {
  EXPECT_EQ(canonical("s0 // 1"), "s0");
  EXPECT_EQ(canonical("0 // s0"), "0");
  EXPECT_EQ(canonical("s0 // s0"), "1");
  EXPECT_EQ(canonical("(s0*s1) // s1"), "s0");
  EXPECT_EQ(canonical("(s0**2 - 1) // (s0 + 1)"), "s0 - 1");
  EXPECT_EQ(canonical("s0 // -1"), "-s0");
}

TEST(SymSimplify, NestedFloorDivisionsAreJoined) {
  EXPECT_EQ(canonical("(s0 // 2) // 3"), "s0 // 6");
  EXPECT_EQ(canonical("(s0 // s1) // 3"), "s0 // (3*s1)");
  EXPECT_EQ(canonical("(s0 // 2) // -3"), "(s0 // 2) // -3");
}

TEST(SymSimplify, DivisibleTermsAreSplitOff) {
  EXPECT_EQ(canonical("(4*s0 + s1 + 5) // 2"), "2*s0 + (s1 + 1) // 2 + 2");
  EXPECT_EQ(canonical("(s0*s1 + s2) // s1"), "s0 + s2 // s1");
  EXPECT_EQ(canonical("(s0 - 1) // 2"), "(s0 + 1) // 2 - 1");
}

TEST(SymSimplify, CommonFactorsAreCancelled) {
  EXPECT_EQ(canonical("(2*s0) // 4"), "s0 // 2");
  EXPECT_EQ(canonical("(2*s0 + 3) // 4"), "(s0 + 1) // 2");
  EXPECT_EQ(canonical("(s0*s1) // (s1*s2)"), "s0 // s2");
  EXPECT_EQ(canonical("ceildiv(s0*s1, s1*s2)"), "ceildiv(s0, s2)");
}

TEST(SymSimplify, RemaindersDropMultiples) {
  EXPECT_EQ(canonical("(4*s0 + s1 + 5) % 2"), "(s1 + 1) % 2");
  EXPECT_EQ(canonical("(2*s0) % 4"), "2*(s0 % 2)");
  EXPECT_EQ(canonical("(s0*s1) % s0"), "0");
  EXPECT_EQ(canonical("-7 % 3"), "2");
  EXPECT_EQ(canonical("(s0 % 6) % 3"), "s0 % 3");
  EXPECT_EQ(canonical("(3*s0 - s1) % 2"), "(s0 + s1) % 2");
  EXPECT_EQ(canonical("s0 % 1"), "0");
}

TEST(SymSimplify, QuotientAndRemainderRecombine) {
  EXPECT_EQ(canonical("4*(s0 // 4) + s0 % 4"), "s0");
  EXPECT_EQ(canonical("s1*(s0 // s1) + s0 % s1"), "s0");
  EXPECT_EQ(canonical("s0 - 4*(s0 // 4)"), "s0 % 4");
}

TEST(SymSimplify, RemainderOfSmallValueIsTheValue) {
  TestTrace trace({4});
  EXPECT_TRUE(trace.env->evaluate(trace.expr("s0 <= 7")));
  EXPECT_EQ(trace.simplified("s0 % 8"), "s0");
  EXPECT_EQ(trace.simplified("s0 // 8"), "0");
  EXPECT_EQ(trace.simplified("s0 % (s0 + 1)"), "s0");
}

TEST(SymSimplify, ExtremaMergeConstantsAndDuplicates) {
  EXPECT_EQ(canonical("min(s0, 4, s0, 7)"), "min(s0, 4)");
  EXPECT_EQ(canonical("max(max(s0, 4), min(3, 9))"), "max(s0, 4)");
  EXPECT_EQ(canonical("min(s0, s0 + 1)"), "s0");
  EXPECT_EQ(canonical("max(s0, s0 + 1, s0 - 5)"), "s0 + 1");
  EXPECT_EQ(canonical("min(s1, s0)"), canonical("min(s0, s1)"));
}

TEST(SymSimplify, ExtremaAbsorbEachOther) {
  EXPECT_EQ(canonical("min(s0, max(s0, s1))"), "s0");
  EXPECT_EQ(canonical("max(s0, min(s1, s0))"), "s0");
}

TEST(SymSimplify, ExtremaDropOperandsByRange) {
  TestTrace trace({4, 5});
  EXPECT_EQ(trace.simplified("max(1, s0)"), "s0");
  EXPECT_EQ(trace.simplified("min(s0*s1, s0)"), "s0");
  EXPECT_EQ(trace.simplified("max(s0, 2 - s1)"), "s0");
}

TEST(SymSimplify, ExtremaOfEqualOperandsKeepOne) {
  TestTrace trace({5, 4});
  EXPECT_TRUE(trace.env->evaluate(trace.expr("max(s0, s1) < s0 + 1")));
  EXPECT_EQ(trace.simplified("min(s0, max(s0, s1))"), "s0");
  EXPECT_EQ(trace.env->statically_known(trace.expr("max(s0, s1) == s0")), true);
}

TEST(SymSimplify, ChoiceBetweenEqualsIsNoChoice) {
  EXPECT_EQ(canonical("where(s0 < 3, s1, s1)"), "s1");
  EXPECT_EQ(canonical("where(true, s0, s1)"), "s0");
  EXPECT_EQ(canonical("where(not (s0 == 3), s0, s1)"), "where(s0 != 3, s0, s1)");
}

TEST(SymSimplify, ComparisonsAreDividedByTheirGcd) {
  EXPECT_EQ(canonical("2*s0 <= 5"), "s0 <= 2");
  EXPECT_EQ(canonical("2*s0 < 5"), "s0 < 3");
  EXPECT_EQ(canonical("2*s0 == 5"), "false");
  EXPECT_EQ(canonical("2*s0 != 5"), "true");
  EXPECT_EQ(canonical("4*s0 + 2 == 6*s1"), "2*s0 + 1 == 3*s1");
  EXPECT_EQ(canonical("4*s0 + 4 == 6*s1"), "2*s0 + 2 == 3*s1");
}

TEST(SymSimplify, ComparisonsMoveNegativeTermsOver) {
  EXPECT_EQ(canonical("s0 - s1 <= -3"), "s0 + 3 <= s1");
  EXPECT_EQ(canonical("s0 > 3"), "s0 > 3");
  EXPECT_EQ(canonical("-s0 <= -3"), "s0 >= 3");
  EXPECT_EQ(canonical("s1 == s0"), "s0 == s1");
  EXPECT_EQ(canonical("s0 + 1 == s0 + 1"), "true");
}

TEST(SymSimplify, ComparisonOfQuotientIsOneOfTheDividend) {
  EXPECT_EQ(canonical("s0 // 4 <= 2"), "s0 < 12");
  EXPECT_EQ(canonical("s0 // 4 < 2"), "s0 < 8");
  EXPECT_EQ(canonical("s0 // 4 >= 2"), "s0 >= 8");
  EXPECT_EQ(canonical("s0 // 4 > 2"), "s0 >= 12");
}

TEST(SymSimplify, EqualityWithMultipleOfQuotientIsDivisibility) {
  EXPECT_EQ(canonical("s0 == 2*(s0 // 2)"), "s0 % 2 == 0");
  EXPECT_EQ(canonical("s1*(s0 // s1) == s0"), "s0 % s1 == 0");
}

TEST(SymSimplify, LogicFoldsConstantsAndComplements) {
  EXPECT_EQ(canonical("s0 < 3 and true"), "s0 < 3");
  EXPECT_EQ(canonical("s0 < 3 and s0 >= 3"), "false");
  EXPECT_EQ(canonical("s0 == 3 or s0 != 3"), "true");
  EXPECT_EQ(canonical("not (s0 < 3 and s1 == 2)"), "s1 != 2 or s0 >= 3");
  EXPECT_EQ(canonical("not not (s0 < 3)"), "s0 < 3");
  EXPECT_EQ(canonical("s1 < 3 and s0 < 3"), canonical("s0 < 3 and s1 < 3"));
}

TEST(SymSimplify, NegatedOrderOfRealsStays) {
  EXPECT_EQ(canonical("not (zf0 < 1.5)"), "not zf0 < 1.5");
  EXPECT_EQ(canonical("not (zf0 == 1.5)"), "zf0 != 1.5");
}

TEST(SymSimplify, RoundingOfScaledSizesStaysAmongIntegers) {
  EXPECT_EQ(canonical("floor(float(s0)*2.0)"), "2*s0");
  EXPECT_EQ(canonical("floor(float(s0)*0.5)"), "s0 // 2");
  EXPECT_EQ(canonical("ceil(s0 / 2)"), "(s0 + 1) // 2");
  EXPECT_EQ(canonical("trunc(float(s0))"), "s0");
  EXPECT_EQ(canonical("floor(float(s0)*0.3)"), "floor(float(s0)*0.3)");
  EXPECT_EQ(canonical("round(2.5)"), "2");
}

TEST(SymSimplify, RefusesWhatHasNoValue) {
  EXPECT_THROW(parse("s0 // 0"), UserError);
  EXPECT_THROW(parse("s0 % 0"), UserError);
  EXPECT_THROW(parse("s0*4611686018427387904*4"), UserError);
  EXPECT_THROW(parse("9223372036854775807 + 1"), UserError);
  EXPECT_THROW(parse("s0**-1"), UserError);
  EXPECT_THROW(parse("s0 + (s1 < 3)"), UserError);
  EXPECT_THROW(parse("s0 and s1"), UserError);
}

// Shared parts make these small in memory, but a text or a walk would take them one by one.
TEST(SymSimplify, AnExpressionThatGrowsWithoutBoundIsRefused) {
  const Expr* e = parse("s0 % 7");
  EXPECT_THROW(
      {
        for (int i = 0; i < 40; ++i) {
          const Expr* other = make_expr(SymOp::mod, {e, parse("s1 + " + std::to_string(i + 2))});
          e = make_expr(SymOp::max, {make_expr(SymOp::add, {e, other}), other});
        }
      },
      UserError);
  std::string product = "(s0 + 1)";
  for (int i = 0; i < 1000; ++i) product += "*(s0 + 1)";
  EXPECT_THROW(parse(product), UserError);
}

TEST(SymSimplify, SubstitutionRebuilds) {
  const Expr* twice = parse("2*s1");
  auto values = [&](const Expr* e) { return e == test::free_symbol("s0") ? twice : nullptr; };
  EXPECT_EQ(text_of(substitute(parse("s0 // 2 + s1"), values)), "2*s1");
}

// ---- random expressions

struct Made {
  const Expr* expr;  // canonical
  std::function<std::optional<SymValue>(const std::map<const Expr*, int64_t>&)>
      value;  // as written
};

/// Expressions built at random together with their meaning, computed without the simplifier.
class Generator {
 public:
  Generator(uint32_t seed, std::vector<const Expr*> symbols, const SymFacts* facts)
      : random_(seed), symbols_(std::move(symbols)), facts_(facts) {}

  Made integer(int depth) {
    if (depth <= 0 || pick(6) == 0) return leaf();
    static constexpr SymOp ops[] = {SymOp::add, SymOp::add, SymOp::mul, SymOp::floordiv,
                                    SymOp::mod, SymOp::min, SymOp::max, SymOp::ceildiv};
    if (pick(12) == 0)
      return combine(SymOp::select, {condition(depth - 1), integer(depth - 1), integer(depth - 1)});
    SymOp op = ops[pick(8)];
    bool division = op == SymOp::floordiv || op == SymOp::mod || op == SymOp::ceildiv;
    Made b =
        division && pick(3) != 0 ? constant(static_cast<int64_t>(pick(6)) + 1) : integer(depth - 1);
    if (division && b.expr->is_integer(0)) b = constant(3);
    return combine(op, {integer(depth - 1), b});
  }
  Made condition(int depth) {
    static constexpr SymOp ops[] = {SymOp::eq, SymOp::ne, SymOp::lt, SymOp::le};
    if (depth > 1 && pick(4) == 0)
      return combine(pick(2) ? SymOp::and_ : SymOp::or_,
                     {condition(depth - 1), condition(depth - 1)});
    if (depth > 1 && pick(6) == 0) return combine(SymOp::not_, {condition(depth - 1)});
    return combine(ops[pick(4)], {integer(depth - 1), integer(depth - 1)});
  }

 private:
  size_t pick(size_t n) { return random_() % n; }
  static Made constant(int64_t value) {
    return {intern_integer(value), [value](auto&) { return SymValue::of_int(value); }};
  }
  Made leaf() {
    if (pick(3) == 0) return constant(static_cast<int64_t>(pick(9)) - 3);
    const Expr* s = symbols_[pick(symbols_.size())];
    return {s, [s](auto& values) { return SymValue::of_int(values.at(s)); }};
  }
  Made combine(SymOp op, std::vector<Made> parts) {
    std::vector<const Expr*> operands;
    for (const Made& part : parts) operands.push_back(part.expr);
    return {make_expr(op, operands, facts_), [op, parts](auto& values) -> std::optional<SymValue> {
              std::vector<SymValue> args;
              for (const Made& part : parts) {
                auto value = part.value(values);
                if (!value) return std::nullopt;
                args.push_back(*value);
              }
              return apply_op(op, args);
            }};
  }

  std::mt19937 random_;
  std::vector<const Expr*> symbols_;
  const SymFacts* facts_;
};

std::optional<SymValue> value_of(const Expr* expr, const std::map<const Expr*, int64_t>& values) {
  return evaluate(expr, [&](const Expr* s) { return SymValue::of_int(values.at(s)); });
}

TEST(SymSimplify, CanonicalFormHasTheSameValuesAsTheOriginal) {
  std::vector<const Expr*> symbols = {parse("s0"), parse("s1"), parse("s2")};
  std::mt19937 random(7);
  int compared = 0;
  for (uint32_t seed = 0; seed < 4000; ++seed) {
    Generator generator(seed, symbols, nullptr);
    std::optional<Made> made;
    try {
      made = seed % 2 ? generator.integer(4) : generator.condition(4);
    } catch (const UserError&) {
      continue;  // a divisor that simplifies to 0
    }
    EXPECT_EQ(parse(text_of(made->expr)), made->expr) << text_of(made->expr);
    for (int trial = 0; trial < 8; ++trial) {
      std::map<const Expr*, int64_t> values;
      for (const Expr* s : symbols) values[s] = static_cast<int64_t>(random() % 19) - 6;
      auto expected = made->value(values);
      if (!expected) continue;  // the original divides by zero here
      auto found = value_of(made->expr, values);
      ASSERT_TRUE(found.has_value()) << text_of(made->expr);
      ASSERT_EQ(found->word, expected->word)
          << "seed " << seed << ": " << text_of(made->expr) << " at " << values[symbols[0]] << ", "
          << values[symbols[1]] << ", " << values[symbols[2]];
      ++compared;
    }
  }
  EXPECT_GT(compared, 15000);
}

bool guards_hold(const ShapeEnv& env, const std::map<const Expr*, int64_t>& values) {
  for (const RecordedGuard& guard : env.guard_conditions()) {
    auto value = value_of(guard.condition, values);
    if (!value || value->word == 0) return false;
  }
  return true;
}

/// Values that satisfy every guard must give an expression simplified under them its own value.
TEST(SymSimplify, SimplificationUnderGuardsHoldsWhereverTheGuardsHold) {
  std::mt19937 random(11);
  int compared = 0;
  for (uint32_t seed = 0; seed < 1500; ++seed) {
    TestTrace trace({static_cast<int64_t>(random() % 9) + 2, static_cast<int64_t>(random() % 9) + 2,
                     static_cast<int64_t>(random() % 9) + 2});
    ShapeEnv& env = *trace.env;
    std::vector<const Expr*> symbols;
    for (const SymbolInfo& info : env.symbols()) symbols.push_back(info.expr);
    Generator generator(seed, symbols, nullptr);
    std::optional<Made> made;
    const Expr* simple = nullptr;
    try {
      for (int i = 0; i < 3; ++i) env.evaluate(generator.condition(2).expr);
      made = seed % 2 ? generator.integer(3) : generator.condition(3);
      simple = env.simplify(made->expr);
    } catch (const UserError&) {
      continue;
    }
    for (int trial = 0; trial < 60; ++trial) {
      std::map<const Expr*, int64_t> values;
      for (const Expr* s : symbols) values[s] = static_cast<int64_t>(random() % 11) + 2;
      if (trial == 0)
        for (const SymbolInfo& info : env.symbols()) values[info.expr] = info.hint->integer();
      bool allowed = guards_hold(env, values);
      EXPECT_TRUE(allowed || trial > 0)
          << "the example sizes break their guards: " << trace.conditions();
      auto expected = allowed ? made->value(values) : std::nullopt;
      if (!expected) continue;
      auto found = value_of(simple, values);
      ASSERT_TRUE(found.has_value());
      ASSERT_EQ(found->word, expected->word)
          << "seed " << seed << ": " << env.text(made->expr) << " became " << env.text(simple)
          << " under " << trace.conditions();
      ++compared;
    }
  }
  EXPECT_GT(compared, 3000);
}

}  // namespace
}  // namespace tenon
