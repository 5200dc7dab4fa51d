// Expressions of .pt2 archives: both spellings, values and refusals.
#include "formats/pt2/pt2_expr.h"

#include <map>

#include "test_files.h"

namespace tenon::formats {
namespace {

using ::testing::HasSubstr;
using testing::refusal_of;

using Values = std::map<std::string, SymNumber>;

// Leaves by their printed text: "s0", "L['x'].size()[1]".
SymLookup lookup_in(const Values& values) {
  return [values](const SymExprAst& leaf) -> std::optional<SymNumber> {
    auto at = values.find(to_text(leaf));
    return at == values.end() ? std::nullopt : std::optional(at->second);
  };
}

SymNumber srepr(std::string_view text, const Values& values = {}) {
  return evaluate(*parse_srepr(text), lookup_in(values));
}
SymNumber infix(std::string_view text, const Values& values = {}) {
  return evaluate(*parse_infix(text), lookup_in(values));
}

SymNumber integer(int64_t value) { return value; }
SymNumber real(double value) { return value; }
SymNumber boolean(bool value) { return value; }

const std::string s0 = "Symbol('s0', positive=True, integer=True)";

TEST(SymExpr, EvaluatesEveryConstructor) {
  const Values v{{"s0", int64_t{7}}, {"u1", int64_t{-7}}};
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
  EXPECT_EQ(srepr("BitwiseFn_bitwise_xor(Integer(6), Integer(3))"), integer(5));
  EXPECT_EQ(srepr("OpaqueUnaryFn_sqrt(Integer(9))"), real(3));
  EXPECT_EQ(srepr("Abs(Integer(-9))"), integer(9));
  EXPECT_EQ(srepr("Identity(Integer(9))"), integer(9));
  EXPECT_EQ(srepr("IsNonOverlappingAndDenseIndicator(Integer(2), Integer(3), Integer(3), "
                  "Integer(1))"),
            integer(1));
  EXPECT_EQ(srepr("IsNonOverlappingAndDenseIndicator(Integer(2), Integer(3), Integer(4), "
                  "Integer(1))"),
            integer(0));
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
  EXPECT_EQ(infix("2*s69", {{"s69", int64_t{4}}}), integer(8));
  EXPECT_EQ(infix("1.5e1"), real(15));
}

TEST(SymExpr, InfixReadsSizesOfArguments) {
  const Values v{{"L['x'].size()[1]", int64_t{6}}, {"L['y'].size()[0]", int64_t{1}}};
  EXPECT_EQ(infix("(L['x'].size()[1]*(L['y'].size()[0] + 2)) % 9 == 0", v), boolean(true));
  EXPECT_EQ(infix("L['x'].shape[1] // 2 != 1", v), boolean(true));
  SymExprPtr e = parse_infix("L['o'][0]['k'].size()[2]");
  EXPECT_EQ(e->op, SymOp::input);
  EXPECT_EQ(e->name, "o");
  ASSERT_EQ(e->path.size(), 3u);
  EXPECT_EQ(e->path[0].index, 0);
  EXPECT_EQ(e->path[1].key, "k");
  EXPECT_EQ(e->path[2].kind, SymAccess::Kind::size);
  EXPECT_EQ(e->path[2].index, 2);
}

TEST(SymExpr, ShortCircuitsProtectDivisions) {
  EXPECT_EQ(infix("0 == 1 and 1 // 0 == 1"), boolean(false));
  EXPECT_EQ(infix("0 == 0 or 1 // 0 == 1"), boolean(true));
}

TEST(SymExpr, PrintedTextReadsBackAsTheSameValue) {
  const Values v{{"s0", int64_t{11}}, {"s1", int64_t{3}}};
  for (std::string_view text :
       {"Add(Mul(Integer(3), Symbol('s0')), Mul(Integer(-1), FloorDiv(Symbol('s0'), "
        "Symbol('s1'))))",
        "Pow(Add(Symbol('s0'), Integer(-1)), Integer(2))",
        "Max(Integer(1), Mod(Add(Symbol('s0'), Integer(4)), Integer(8)))"}) {
    SymExprPtr e = parse_srepr(text);
    EXPECT_EQ(infix(to_text(*e), v), evaluate(*e, lookup_in(v))) << to_text(*e);
  }
}

std::string refusal(const std::function<void()>& call) {
  auto refused = refusal_of(call);
  EXPECT_EQ(refused.code, ErrorCode::bad_file);
  return refused.message;
}

TEST(SymExpr, RefusesWhatTheGrammarLacks) {
  for (std::string_view text : {"",
                                "Integer(",
                                "Integer(1",
                                "Integer(1))",
                                "Integer('1')",
                                "Symbol(s0)",
                                "Symbol('')",
                                "Symbol('s0",
                                "Symbol('s0', integer=maybe)",
                                "__import__('os')",
                                "Add()",
                                "FloorDiv(Integer(1))",
                                "Where(true, Integer(1))",
                                "Lambda(Integer(1))",
                                "Symbol('s0').x",
                                "s0",
                                "Integer(1) 2",
                                "OpaqueUnaryFn_system(Integer(1))",
                                "Integer(99999999999999999999)",
                                "Rational(1, 0)",
                                "-true",
                                "Float('x', precision=53)"})
    EXPECT_NE(refusal([&] { parse_srepr(text); }), "") << text;
  for (std::string_view text : {"", "1 +", "(1", "1)", "f(1)", "L[0]", "L['x'", "x[0]",
                                "1 == ", "L['x'].size()", "__import__('os').system('x')",
                                "lambda: 1", "a if b else c", "'x'", "99999999999999999999"})
    EXPECT_NE(refusal([&] { parse_infix(text); }), "") << text;
}

TEST(SymExpr, BoundsDepthAndLength) {
  auto nested = [](int depth) {
    std::string text = "Integer(1)";
    for (int i = 0; i < depth; ++i) text = "Abs(" + text + ")";
    return text;
  };
  EXPECT_EQ(srepr(nested(199)), integer(1));
  EXPECT_THAT(refusal([&] { parse_srepr(nested(200)); }), HasSubstr("deeper than 200"));
  EXPECT_THAT(refusal([] { parse_infix(std::string(60000, '(')); }), HasSubstr("deeper"));
  EXPECT_THAT(refusal([] { parse_infix(std::string(60000, '-')); }), HasSubstr("deeper"));
  std::string divisions = "1";
  for (int i = 0; i < 20000; ++i) divisions += "//1";
  EXPECT_THAT(refusal([&] { parse_infix(divisions); }), HasSubstr("deeper"));
  EXPECT_THAT(refusal([] { parse_infix(std::string(65537, ' ')); }), HasSubstr("65536"));
}

TEST(SymExpr, RefusesOverflowDivisionByZeroAndUnboundSymbols) {
  EXPECT_THAT(refusal([] { infix("9223372036854775807 + 1"); }), HasSubstr("64 bits"));
  EXPECT_THAT(refusal([] { infix("4294967296 * 4294967296"); }), HasSubstr("64 bits"));
  EXPECT_THAT(refusal([] { infix("2**63"); }), HasSubstr("64 bits"));
  EXPECT_THAT(refusal([] { infix("10**400"); }), HasSubstr("64 bits"));
  EXPECT_EQ(infix("3**39"), integer(4052555153018976267));
  EXPECT_THAT(refusal([] { srepr("LShift(Integer(1), Integer(63))"); }), HasSubstr("64 bits"));
  EXPECT_THAT(refusal([] { srepr("FloorDiv(Integer(-9223372036854775808), Integer(-1))"); }),
              HasSubstr("64 bits"));
  EXPECT_THAT(refusal([] { srepr("TruncToInt(Float('1e30'))"); }), HasSubstr("64 bits"));
  EXPECT_THAT(refusal([] { infix("1 // 0"); }), HasSubstr("division by zero"));
  EXPECT_THAT(refusal([] { infix("1 % 0"); }), HasSubstr("division by zero"));
  EXPECT_THAT(refusal([] { srepr("CleanDiv(Integer(7), Integer(2))"); }), HasSubstr("remainder"));
  EXPECT_THAT(refusal([] { infix("s0 + 1"); }), HasSubstr("nothing binds it"));
}

}  // namespace
}  // namespace tenon::formats
