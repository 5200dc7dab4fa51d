// Symbolic numbers of the public API: operators, mixing with plain numbers, errors.
#include "core/sym/sym_int.h"
#include "core/sym/shape_env.h"
#include "core/value.h"

#include "unit/core/sym_test_support.h"

#include <gtest/gtest.h>

#include <thread>

namespace tenon {
namespace {

using test::TestTrace;

TEST(SymInt, PlainNumbersNeedNoTrace) {
  SymInt a = 7, b = 2;
  EXPECT_EQ((a + b * 3 - 1).guard_int(), 12);
  EXPECT_EQ((SymInt(-7) / 2).guard_int(), -4);
  EXPECT_EQ((SymInt(-7) % 2).guard_int(), 1);
  EXPECT_TRUE(bool(a > b));
  EXPECT_EQ(sym_ceildiv(7, 2).guard_int(), 4);
  EXPECT_EQ(sym_min(a, b).guard_int(), 2);
  EXPECT_EQ(sym_truediv(a, b).guard_float(), 3.5);
  EXPECT_EQ(sym_round(SymOp::floor_to_int, SymFloat(3.7)).guard_int(), 3);
  EXPECT_EQ(symbolic_text(a), "7");
}

TEST(SymInt, PlainOverflowIsAnError) {
  EXPECT_THROW((void)(SymInt(INT64_MAX) + 1), UserError);
  EXPECT_THROW((void)(SymInt(INT64_MAX) * 2), UserError);
  EXPECT_THROW((void)(SymInt(1) / 0), UserError);
  EXPECT_THROW((void)SymInt(INT64_MIN), UserError);
}

// Their words would read as pointers to expressions.
TEST(SymInt, ListsOfNumbersBelowTheRangeAreRefused) {
  std::vector<int64_t> lowest = {1, -(int64_t{1} << 62)}, below = {1, lowest[1] - 1};
  EXPECT_FALSE(SymIntList(lowest).is_symbolic());
  EXPECT_THROW((void)SymIntList(below), UserError);
  EXPECT_THROW((void)Value::of(IntList(below)), UserError);
}

TEST(SymInt, PlainParametersAndRealTensorsRefuseSymbolicLists) {
  TestTrace trace({8});
  SymInt sizes[] = {trace.size("s0"), 2}, strides[] = {2, 1};
  Value words = Value::of(SymIntList(List<SymInt>(sizes, 2)));
  EXPECT_THROW((void)arg_as<IntList>(words), UserError);
  EXPECT_THROW((void)make_tensor(SymIntList(List<SymInt>(sizes, 2)),
                                 SymIntList(List<SymInt>(strides, 2)), Dtype::f32),
               UserError);
}

TEST(SymInt, ArithmeticIsInternedInOneForm) {
  TestTrace trace({8});
  SymInt s = trace.size("s0");
  SymInt a = s * 2 + 1, b = 1 + s + s;
  EXPECT_EQ(a.expr(), b.expr());
  EXPECT_EQ(symbolic_text(a), "2*s0 + 1");
  EXPECT_EQ((a - b).maybe_int(), 0);
  EXPECT_EQ((a / 2).expr(), s.expr());
  EXPECT_EQ((s % s).maybe_int(), 0);
}

TEST(SymInt, ArithmeticUsesWhatGuardsSaid) {
  TestTrace trace({8, 8});
  SymInt a = trace.size("s0"), b = trace.size("s1");
  SymInt before = a - b;
  EXPECT_TRUE(before.is_symbolic());
  EXPECT_TRUE(bool(a == b));
  EXPECT_EQ((a - b).maybe_int(), 0);
  EXPECT_EQ((before + 3).maybe_int(), 3);
}

TEST(SymInt, ComparisonKnownFromTheRangeIsPlain) {
  TestTrace trace({8});
  EXPECT_FALSE((trace.size("s0") >= 0).is_symbolic());
  EXPECT_TRUE((trace.size("s0") >= 5).is_symbolic());
  EXPECT_EQ(symbolic_text(trace.size("s0") >= 5), "s0 >= 5");
}

TEST(SymInt, ChoiceAndRoundingStaySymbolic) {
  TestTrace trace({8, 5});
  SymInt a = trace.size("s0"), b = trace.size("s1");
  EXPECT_EQ(symbolic_text(sym_select(a < b, a, b)), "where(s0 < s1, s0, s1)");
  EXPECT_EQ(symbolic_text(sym_max(a, b)), "max(s0, s1)");
  EXPECT_EQ(symbolic_text(sym_pow(a, 2)), "s0**2");
  SymFloat scaled = sym_float_op(SymOp::mul, sym_to_float(a), 2.5);
  EXPECT_EQ(symbolic_text(sym_round(SymOp::floor_to_int, scaled)), "(5*s0) // 2");
  EXPECT_EQ(symbolic_text(sym_truediv(a, b)), "float(s0) / float(s1)");
}

TEST(SymBool, OperatorsShortCutPlainSides) {
  TestTrace trace({8});
  SymBool open = trace.size("s0") > 4;
  EXPECT_EQ((SymBool(true) & open).expr(), open.expr());
  EXPECT_FALSE((SymBool(false) & open).is_symbolic());
  EXPECT_FALSE((open | SymBool(true)).is_symbolic());
  EXPECT_EQ(symbolic_text(!open), "s0 <= 4");
}

TEST(SymInt, TextOutsideOfTheTraceStillNamesTheSymbol) {
  auto env = ShapeEnv::make();
  SymInt s = env->create_symbol(4, {SymbolSource::Kind::input_size, 0, 0}, "x.size(0)");
  SymInt twice = s * 2;
  EXPECT_EQ(symbolic_text(twice), "2*s0");
  EXPECT_EQ(to_text(twice), "2*s0");
  env.reset();
  EXPECT_TRUE(symbolic_text(twice).starts_with("2*sym"));
}

TEST(SymInt, ErrorsSayWhatTheirSymbolsStandFor) {
  auto env = ShapeEnv::make();
  SymInt s = env->create_symbol(4, {SymbolSource::Kind::input_size, 0, 0}, "x.size(0)");
  SymInt n = env->create_symbol(7, {SymbolSource::Kind::input_value, 0, 0}, "number0",
                                SymbolOptions::for_number());
  ShapeEnvScope scope(*env);
  auto text = [](auto fails) {
    try {
      fails();
    } catch (const UserError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_EQ(text([&] { fail("{} elements, not {}; see {}", s * 2, n, s); }),
            "2*s0 elements, not s1; see s0; here s0 is x.size(0) = 4, s1 is number0 = 7");
  EXPECT_EQ(text([&] { fail("x.size(0) is {}", s); }), "x.size(0) is s0");
  EXPECT_EQ(text([&] { fail("{} elements", 3); }), "3 elements");
}

TEST(SymInt, TextsInATraceAreLooksAndMessagesAreNot) {
  TestTrace trace({8, 4});
  SymInt a = trace.size("s0"), b = trace.size("s1");
  SymInt sizes[] = {a, b, 2};
  SymIntList list(List<SymInt>(sizes, 3));
  EXPECT_EQ(message("{} {} {} {}", list, a * 2, a >= 5, Number(b)), "[s0, s1, 2] 2*s0 s0 >= 5 s1");
  {
    SymbolicTexts texts;
    EXPECT_EQ(to_text(list), "[s0, s1, 2]");
  }
  EXPECT_EQ(trace.guards(), "");
  EXPECT_EQ(to_text(a >= 5), "true");
  EXPECT_EQ(trace.guards(), "s0 >= 5");
  EXPECT_EQ(to_text(b / 8.0), "0.5");
  EXPECT_EQ(to_text(Number(a)), "8");
  EXPECT_EQ(to_text(list), "[8, 4, 2]");
}

TEST(SymInt, OneIntegerIsAListOfSizes) {
  auto first_of = [](SymIntList list) { return list.size() == 1 ? list[0].guard_int() : -1; };
  size_t n = 3;
  EXPECT_EQ(first_of(-2), -2);
  EXPECT_EQ(first_of(n), 3);
  EXPECT_EQ(first_of(SymInt(4)), 4);
  EXPECT_THROW(first_of(INT64_MIN), UserError);
}

TEST(SymInt, InterningFromManyThreadsGivesOneNode) {
  std::vector<std::thread> threads;
  std::vector<const Expr*> found(8);
  for (size_t t = 0; t < found.size(); ++t)
    threads.emplace_back([&found, t] {
      for (int i = 0; i < 300; ++i) found[t] = test::parse("3*s1 + " + std::to_string(i));
    });
  for (std::thread& thread : threads) thread.join();
  for (const Expr* e : found) EXPECT_EQ(e, found[0]);
}

}  // namespace
}  // namespace tenon
