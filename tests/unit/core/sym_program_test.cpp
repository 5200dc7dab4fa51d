// Compiled guard programs against the evaluator.
#include "core/sym/sym_program.h"

#include "unit/core/sym_test_support.h"

#include <gtest/gtest.h>

#include <random>

namespace tenon {
namespace {

using test::parse;

const std::vector<const Expr*> symbols = {parse("s0"), parse("s1"), parse("s2"), parse("zf0")};

SymProgram compile(std::initializer_list<const char*> conditions,
                   std::initializer_list<const char*> outputs = {}) {
  std::vector<const Expr*> tests, values;
  for (const char* text : conditions) tests.push_back(parse(text));
  for (const char* text : outputs) values.push_back(parse(text));
  return SymProgram::compile(symbols, tests, values);
}

std::vector<int64_t> words(int64_t a, int64_t b, int64_t c, double f = 0) {
  return {a, b, c, std::bit_cast<int64_t>(f)};
}

TEST(SymProgram, WithoutConditionsEverythingPasses) {
  EXPECT_TRUE(compile({}).check(words(0, 0, 0)));
}

TEST(SymProgram, NamesTheFirstConditionThatFails) {
  SymProgram program = compile({"s0 >= 2", "s0 < s1", "s1 % 4 == 0 and s2 != 3"});
  EXPECT_EQ(program.failed_condition(words(2, 4, 4)), -1);
  EXPECT_EQ(program.failed_condition(words(1, 4, 4)), 0);
  EXPECT_EQ(program.failed_condition(words(4, 4, 4)), 1);
  EXPECT_EQ(program.failed_condition(words(2, 4, 3)), 2);
  EXPECT_EQ(program.failed_condition(words(2, 5, 4)), 2);
  EXPECT_TRUE(program.check(words(2, 4, 4)));
  EXPECT_FALSE(program.check(words(2, 4, 3)));
}

TEST(SymProgram, TypicalGuardIsALoadAndACompare) {
  EXPECT_EQ(compile({"s0 >= 2"}).n_instructions(), 2u);
  EXPECT_EQ(compile({"s0 >= 2", "s0 <= 9", "s0 + s1 == 7"}).n_instructions(), 6u);
}

TEST(SymProgram, OverflowMakesTheGuardFalse) {
  SymProgram program = compile({"s0*s1 >= -5"});
  EXPECT_TRUE(program.check(words(3, 4, 0)));
  EXPECT_FALSE(program.check(words(INT64_MAX, 2, 0)));
  EXPECT_FALSE(compile({"s0 + s1 > 0"}).check(words(INT64_MAX, 1, 0)));
}

TEST(SymProgram, DivisionByZeroMakesTheGuardFalse) {
  SymProgram program = compile({"s0 // s1 >= 0"});
  EXPECT_TRUE(program.check(words(3, 2, 0)));
  EXPECT_FALSE(program.check(words(3, 0, 0)));
  EXPECT_FALSE(compile({"s0 // s1 != 1"}).check(words(INT64_MIN, -1, 0)));
}

TEST(SymProgram, ComputesOutputs) {
  SymProgram program = compile({"s0 >= 2"}, {"2*s0 + 1", "s0", "min(s0, s1) // 2", "7", "zf0*2.0"});
  std::vector<int64_t> out(5);
  ASSERT_TRUE(program.run(words(5, 9, 0, 1.5), out));
  EXPECT_EQ(out[0], 11);
  EXPECT_EQ(out[1], 5);
  EXPECT_EQ(out[2], 2);
  EXPECT_EQ(out[3], 7);
  EXPECT_EQ(std::bit_cast<double>(out[4]), 3.0);
  EXPECT_FALSE(program.run(words(1, 9, 0), out));
  EXPECT_FALSE(program.run(words(INT64_MAX, 9, 0), out));
}

TEST(SymProgram, RealsCompareAsReals) {
  SymProgram program = compile({"zf0 < 1.5", "floor(zf0*float(s0)) == 3"});
  EXPECT_TRUE(program.check(words(4, 0, 0, 0.9)));
  EXPECT_FALSE(program.check(words(4, 0, 0, 2.0)));
  EXPECT_FALSE(program.check(words(4, 0, 0, std::nan(""))));
  EXPECT_TRUE(compile({"not zf0 < 1.5"}).check(words(4, 0, 0, std::nan(""))));
}

TEST(SymProgram, ExtremeConstantsCompareExactly) {
  EXPECT_FALSE(compile({"s0 > 9223372036854775806"}).check(words(INT64_MAX - 1, 0, 0)));
  EXPECT_TRUE(compile({"s0 > 9223372036854775806"}).check(words(INT64_MAX, 0, 0)));
}

TEST(SymProgram, ManyValuesNeedFewRegisters) {
  std::vector<const Expr*> many, conditions;
  for (uint32_t i = 0; i < 2000; ++i) {
    many.push_back(intern_symbol(2'000'000 + i, ExprKind::integer));
    conditions.push_back(make_expr(SymOp::le, {intern_integer(2), many.back()}));
  }
  SymProgram program = SymProgram::compile(many, conditions);
  std::vector<int64_t> values(2000, 2);
  EXPECT_TRUE(program.check(values));
  values[1999] = 1;
  EXPECT_EQ(program.failed_condition(values), 1999);
}

TEST(SymProgram, ThousandsOfLiveValuesStillRun) {
  std::vector<const Expr*> many;
  for (uint32_t i = 0; i < 1000; ++i)
    many.push_back(intern_symbol(2'000'000 + i, ExprKind::integer));
  SymProgram program = SymProgram::compile(many, {}, many);
  std::vector<int64_t> values(1000), out(1000);
  for (size_t i = 0; i < 1000; ++i) values[i] = static_cast<int64_t>(i * i);
  ASSERT_TRUE(program.run(values, out));
  EXPECT_EQ(out, values);
}

/// Trees built node by node, without the simplifier, so that every operation occurs.
const Expr* random_integer(std::mt19937& random, int depth);

const Expr* random_condition(std::mt19937& random, int depth) {
  static constexpr SymOp ops[] = {SymOp::eq, SymOp::ne, SymOp::lt, SymOp::le};
  auto node = [](SymOp op, std::vector<const Expr*> operands) {
    return intern_node(op, ExprKind::boolean, operands);
  };
  if (depth > 1 && random() % 3 == 0) {
    const Expr* a = random_condition(random, depth - 1);
    if (random() % 3 == 0) return node(SymOp::not_, {a});
    const Expr* b = random_condition(random, depth - 1);
    return node(random() % 2 ? SymOp::and_ : SymOp::or_, {a, b});
  }
  return node(ops[random() % 4],
              {random_integer(random, depth - 1), random_integer(random, depth - 1)});
}

const Expr* random_integer(std::mt19937& random, int depth) {
  if (depth <= 0 || random() % 6 == 0) {
    if (random() % 3 == 0) return intern_integer(static_cast<int64_t>(random() % 9) - 3);
    return symbols[random() % 3];
  }
  static constexpr SymOp ops[] = {SymOp::add, SymOp::mul, SymOp::floordiv, SymOp::ceildiv,
                                  SymOp::mod, SymOp::min, SymOp::max,      SymOp::pow};
  auto node = [](SymOp op, std::vector<const Expr*> operands) {
    return intern_node(op, ExprKind::integer, operands);
  };
  if (random() % 10 == 0)
    return node(SymOp::select,
                {random_condition(random, depth - 1), random_integer(random, depth - 1),
                 random_integer(random, depth - 1)});
  SymOp op = ops[random() % 8];
  const Expr* a = random_integer(random, depth - 1);
  const Expr* b = random_integer(random, depth - 1);
  bool variadic = op == SymOp::add || op == SymOp::mul || op == SymOp::min || op == SymOp::max;
  if (variadic && random() % 3 == 0) return node(op, {a, b, random_integer(random, depth - 1)});
  return node(op, {a, b});
}

TEST(SymProgram, AgreesWithTheEvaluatorOnRandomPrograms) {
  std::mt19937 random(3);
  int passed = 0, failed = 0;
  for (int round = 0; round < 1500; ++round) {
    std::vector<const Expr*> conditions, outputs;
    for (size_t i = random() % 3; i-- > 0;) conditions.push_back(random_condition(random, 4));
    for (size_t i = random() % 3; i-- > 0;) outputs.push_back(random_integer(random, 4));
    SymProgram program = SymProgram::compile(symbols, conditions, outputs);
    std::vector<int64_t> out(outputs.size());
    for (int trial = 0; trial < 10; ++trial) {
      auto values =
          words(static_cast<int64_t>(random() % 15) - 4, static_cast<int64_t>(random() % 15) - 4,
                static_cast<int64_t>(random() % 15) - 4);
      auto value_of = [&](const Expr* e) {
        return evaluate(e, [&](const Expr* s) {
          size_t at =
              static_cast<size_t>(std::find(symbols.begin(), symbols.end(), s) - symbols.begin());
          return SymValue{s->kind, values[at]};
        });
      };
      bool holds = true, defined = true;
      for (const Expr* e : conditions) {
        auto value = value_of(e);
        // `and` at the top stops at its first false part, the evaluator looks at all of them.
        defined = defined && (value || e->op != SymOp::and_);
        holds = holds && value && value->word;
      }
      if (!defined) continue;
      for (const Expr* e : outputs) holds = holds && value_of(e).has_value();
      ASSERT_EQ(program.run(values, out), holds);
      (holds ? passed : failed)++;
      for (size_t i = 0; i < outputs.size() && holds; ++i)
        ASSERT_EQ(out[i], value_of(outputs[i])->word) << test::text_of(outputs[i]);
    }
  }
  EXPECT_GT(passed, 1500);
  EXPECT_GT(failed, 1500);
}

}  // namespace
}  // namespace tenon
