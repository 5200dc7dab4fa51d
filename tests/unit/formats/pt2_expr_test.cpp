// Expressions of .pt2 archives: both spellings, values and refusals.
#include "formats/pt2/pt2_expr.h"

#include <map>

#include "test_files.h"

namespace tenon::formats {
namespace {

using ::testing::HasSubstr;
using testing::refusal_of;

using Values = std::map<std::string, SymValue>;

/// One text with the values of its symbols by name: "s0", "L['x'].size()[1]".
SymValue value_of(const Expr* expr, const Pt2Expressions& expressions, const Values& values) {
  auto value = evaluate(expr, [&](const Expr* symbol) -> std::optional<SymValue> {
    auto at = values.find(expressions.env()->info(symbol).name);
    return at == values.end() ? std::nullopt : std::optional(at->second);
  });
  EXPECT_TRUE(value.has_value());
  return value.value_or(SymValue{});
}

SymValue srepr(const std::string& text, const Values& values = {}) {
  Pt2Expressions expressions;
  return value_of(expressions.read(text), expressions, values);
}
SymValue infix(std::string_view text, const Values& values = {}) {
  Pt2Expressions expressions;
  auto place = [&](std::string_view name) { return expressions.symbol(name); };
  return value_of(expressions.read_guard(text, place), expressions, values);
}

SymValue integer(int64_t value) { return SymValue::of_int(value); }
SymValue real(double value) { return SymValue::of_real(value); }
SymValue boolean(bool value) { return SymValue::of_bool(value); }

const std::string s0 = "Symbol('s0', positive=True, integer=True)";

TEST(SymExpr, EvaluatesEveryConstructor) {
  const Values v{{"s0", integer(7)}, {"u1", integer(-7)}};
  EXPECT_EQ(srepr(s0, v), integer(7));
  EXPECT_EQ(srepr("Symbol('s0', integer=True, positive=True)", v), integer(7));
  EXPECT_EQ(srepr("Add(" + s0 + ", Integer(1), Integer(-3))", v), integer(5));
  EXPECT_EQ(srepr("Mul(Integer(-2), " + s0 + ")", v), integer(-14));
  EXPECT_EQ(srepr("Pow(" + s0 + ", Integer(2))", v), integer(49));
  EXPECT_EQ(srepr("Pow(Integer(4), Rational(1, 2))", v), real(2));
  EXPECT_EQ(srepr("Pow(Integer(4), Integer(-1))", v), real(0.25));
  EXPECT_EQ(srepr("FloorDiv(Symbol('u1', integer=True), Integer(2))", v), integer(-4));
  EXPECT_EQ(srepr("Mod(" + s0 + ", Integer(4))", v), integer(3));
  EXPECT_EQ(srepr("PythonMod(Symbol('u1', integer=True), Integer(4))", v), integer(1));
  EXPECT_EQ(srepr("CleanDiv(Integer(8), Integer(2))"), integer(4));
  EXPECT_EQ(srepr("ModularIndexing(Integer(17), Integer(3), Integer(4))"), integer(1));
  EXPECT_EQ(srepr("Max(Integer(1), " + s0 + ")", v), integer(7));
  EXPECT_EQ(srepr("Min(Integer(1), " + s0 + ")", v), integer(1));
  EXPECT_EQ(srepr("Where(StrictLessThan(Integer(1), Integer(2)), Integer(5), Integer(6))"),
            integer(5));
  EXPECT_EQ(srepr("PowByNatural(Integer(2), Integer(62))"), integer(int64_t{1} << 62));
  EXPECT_EQ(srepr("FloatTrueDiv(ToFloat(Integer(1)), Float('4.0', precision=53))"), real(0.25));
  EXPECT_EQ(srepr("IntTrueDiv(Integer(1), Integer(4))"), real(0.25));
  EXPECT_EQ(srepr("TruncToInt(Float('-2.5', precision=53))"), integer(-2));
  EXPECT_EQ(srepr("FloorToInt(Float('-2.5', precision=53))"), integer(-3));
  EXPECT_EQ(srepr("CeilToInt(Float('-2.5', precision=53))"), integer(-2));
  EXPECT_EQ(srepr("RoundToInt(Float('2.5', precision=53))"), integer(2));
  EXPECT_EQ(srepr("LShift(Integer(3), Integer(2))"), integer(12));
  EXPECT_EQ(srepr("RShift(Integer(-5), Integer(1))"), integer(-3));
  EXPECT_EQ(srepr("BitwiseFn_bitwise_and(Integer(6), Integer(3))"), integer(2));
  EXPECT_EQ(srepr("BitwiseFn_bitwise_or(" + s0 + ", Integer(24))", v), integer(31));
  EXPECT_EQ(srepr("BitwiseFn_bitwise_xor(Integer(-6), Symbol('u1', integer=True))", v), integer(3));
  EXPECT_EQ(srepr("OpaqueUnaryFn_sqrt(Integer(9))"), real(3));
  EXPECT_EQ(srepr("Abs(Integer(-9))"), integer(9));
  EXPECT_EQ(srepr("Identity(Integer(9))"), integer(9));
}

TEST(SymExpr, ChoicesHaveAnyNumberOfCases) {
  const std::string u = "Symbol('u1', integer=True)";
  auto pair = [](const std::string& value, const std::string& condition) {
    return "ExprCondPair(" + value + ", " + condition + ")";
  };
  const std::string negative = "StrictLessThan(" + u + ", Integer(0))",
                    small = "LessThan(" + u + ", Integer(4))";
  const std::string three = "Piecewise(" + pair("Add(" + u + ", Integer(10))", negative) + ", " +
                            pair(u, small) + ", " + pair("Integer(4)", "true") + ")";
  auto at = [&](int64_t value) { return srepr(three, {{"u1", SymValue::of_int(value)}}); };
  EXPECT_EQ(at(-3), integer(7));
  EXPECT_EQ(at(2), integer(2));
  EXPECT_EQ(at(9), integer(4));
  Pt2Expressions expressions;
  EXPECT_EQ(expressions.read("Piecewise(" + pair(u, small) + ")"), nullptr) << "no last case";
}

TEST(SymExpr, WhatTenonsExpressionsCannotSayIsNull) {
  Pt2Expressions expressions;
  for (const char* text :
       {"OpaqueUnaryFn_cos(ToFloat(Symbol('s0')))",
        "BitwiseFn_bitwise_xor(Symbol('s0'), Symbol('s1'))",
        "BitwiseFn_bitwise_and(Symbol('s0'), Integer(9223372036854775807))",
        "IsNonOverlappingAndDenseIndicator(Integer(2), Integer(3), Integer(3), Integer(1))",
        "Mod(Symbol('zf0'), Float('2.0', precision=53))"})
    EXPECT_EQ(expressions.read(text), nullptr) << text;
}

TEST(SymExpr, LessThanMeansLessOrEqual) {
  EXPECT_EQ(srepr("LessThan(Integer(2), Integer(2))"), boolean(true));
  EXPECT_EQ(srepr("StrictLessThan(Integer(2), Integer(2))"), boolean(false));
  EXPECT_EQ(srepr("GreaterThan(Integer(2), Integer(2))"), boolean(true));
  EXPECT_EQ(srepr("And(Equality(Integer(2), Integer(2)), Not(Unequality(Integer(2), Integer(2))))"),
            boolean(true));
  EXPECT_EQ(srepr("LessThan(Integer(9223372036854775807), int_oo)"), boolean(true));
  EXPECT_EQ(srepr("StrictLessThan(-int_oo, Integer(-5))"), boolean(true));
  EXPECT_EQ(srepr("Or(false, true)"), boolean(true));
}

TEST(SymExpr, InfixFollowsPythonsPrecedence) {
  EXPECT_EQ(infix("2 + 3*4"), integer(14));
  EXPECT_EQ(infix("-2**2"), integer(-4));
  EXPECT_EQ(infix("2**3**2"), integer(512));
  EXPECT_EQ(infix("2*7//4"), integer(3));
  EXPECT_EQ(infix("7//4*2"), integer(2));
  EXPECT_EQ(infix("-7 // 2"), integer(-4));
  EXPECT_EQ(infix("-7 % 3"), integer(2));
  EXPECT_EQ(infix("10 - 3 - 2"), integer(5));
  EXPECT_EQ(infix("7 / 2"), real(3.5));
  EXPECT_EQ(infix("1 < 2 < 2"), boolean(false));
  EXPECT_EQ(infix("not 1 == 2 and 3 > 2 or 1 == 0"), boolean(true));
  EXPECT_EQ(infix("max(1, 2, 3) + min(4, 5)"), integer(7));
  EXPECT_EQ(infix("2*s69", {{"s69", integer(4)}}), integer(8));
  EXPECT_EQ(infix("1.5e1"), real(15));
  EXPECT_EQ(infix("1 if 2 > 3 else 4 if 2 > 5 else 6 + 1"), integer(7));
  EXPECT_EQ(infix("1 | 6 ^ 3 & 2 + 4"), integer(5));
}

TEST(SymExpr, InfixReadsSizesOfArguments) {
  const Values v{{"L['x'].size()[1]", integer(6)},
                 {"L['x'].shape[1]", integer(6)},
                 {"L['y'].size()[0]", integer(1)}};
  EXPECT_EQ(infix("(L['x'].size()[1]*(L['y'].size()[0] + 2)) % 9 == 0", v), boolean(true));
  EXPECT_EQ(infix("L['x'].shape[1] // 2 != 1", v), boolean(true));
}

TEST(SymExpr, EqualTextsAndSpellingsAreOneExpression) {
  Pt2Expressions expressions;
  auto nothing = [](std::string_view) -> const Expr* { return nullptr; };
  const Expr* e = expressions.read("Add(Mul(Integer(3), Symbol('s0')), Integer(-1))");
  EXPECT_EQ(expressions.read("3*s0 - 1"), e);
  EXPECT_EQ(expressions.read_guard("s0 + 2*s0 - 1", nothing), e);
  EXPECT_EQ(expressions.env()->text(e), "3*s0 - 1");
  EXPECT_EQ(expressions.env()->text(expressions.symbol("s0")), "s0");
}

std::string expr_refusal(std::string_view text) {
  auto refused = refusal_of([&] { Pt2Expressions().read(std::string(text)); });
  EXPECT_EQ(refused.code, ErrorCode::bad_file);
  return refused.message;
}

TEST(SymExpr, RefusesWhatTheGrammarLacks) {
  for (std::string_view text :
       {"", "Integer(", "Integer(1", "Integer(1))", "Integer('1')", "Symbol(s0)", "Symbol('')",
        "Symbol('s0", "__import__('os')", "Add()", "FloorDiv(Integer(1))",
        "Where(true, Integer(1))", "Lambda(Integer(1))", "Symbol('s0').x", "Integer(1) 2",
        "OpaqueUnaryFn_system(Integer(1))", "Integer(99999999999999999999)", "-true",
        "Float('x', precision=53)"})
    EXPECT_NE(expr_refusal(text), "") << text;
  for (std::string_view text : {"1 +", "(1", "1)", "f(1)", "L[0]", "L['x'", "x[0]",
                                "1 == ", "L['x'].size()", "__import__('os').system('x')",
                                "lambda: 1", "a if b else c", "'x'", "99999999999999999999"})
    EXPECT_NE(expr_refusal(text), "") << text;
  EXPECT_EQ(expr_refusal("Add(Symbol('s0'), Integer(1) 2)"),
            "expression \"Add(Symbol('s0'), Integer(1) 2)\", column 30: expected ')', found '2)'");
}

TEST(SymExpr, BoundsDepthLengthAndWork) {
  auto nested = [](int depth) {
    std::string text = "Integer(1)";
    for (int i = 0; i < depth; ++i) text = "Abs(" + text + ")";
    return text;
  };
  EXPECT_EQ(srepr(nested(198)), integer(1));
  EXPECT_THAT(expr_refusal(nested(199)), HasSubstr("fewer nested"));
  EXPECT_THAT(expr_refusal(std::string(60000, '(')), HasSubstr("fewer nested"));
  EXPECT_THAT(expr_refusal(std::string(60000, '-')), HasSubstr("fewer signs"));
  auto chained = [](std::string_view step) {
    std::string text = "s0";
    for (int i = 0; i < 9000; ++i) text += step;
    return text;
  };
  EXPECT_THAT(expr_refusal(chained("//s1")), HasSubstr("fewer operations"));
  EXPECT_THAT(expr_refusal(chained("**s1")), HasSubstr("fewer signs"));
  EXPECT_THAT(expr_refusal(chained(" if 1<2 else 3").substr(0, 60002)), HasSubstr("fewer signs"));
  EXPECT_THAT(expr_refusal(std::string(65537, ' ')), HasSubstr("65536"));
}

// The middle of a chain stands on both sides of it, and so on inside.
TEST(SymExpr, NestedChainsAreNotWalkedTwice) {
  std::string text = "s0==s2";
  for (int i = 0; i < 60; ++i) text = "(s0==s1)==(" + text + ")==(s2==s1)";
  EXPECT_EQ(Pt2Expressions().read(text), nullptr);  // too large
}

TEST(SymExpr, RefusesOverflowAndDivisionByZero) {
  EXPECT_THAT(expr_refusal("9223372036854775807 + 1"), HasSubstr("64 bits"));
  EXPECT_THAT(expr_refusal("4294967296 * 4294967296"), HasSubstr("64 bits"));
  EXPECT_THAT(expr_refusal("2**63"), HasSubstr("64 bits"));
  EXPECT_THAT(expr_refusal("10**400"), HasSubstr("64 bits"));
  EXPECT_EQ(infix("3**39"), integer(4052555153018976267));
  EXPECT_THAT(expr_refusal("LShift(Integer(1), Integer(63))"), HasSubstr("64 bits"));
  EXPECT_THAT(expr_refusal("TruncToInt(Float('1e30'))"), HasSubstr("64 bits"));
  EXPECT_THAT(expr_refusal("1 // 0"), HasSubstr("division by zero"));
  EXPECT_THAT(expr_refusal("1 % 0"), HasSubstr("division by zero"));
}

}  // namespace
}  // namespace tenon::formats
