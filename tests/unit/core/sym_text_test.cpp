// Expressions as text and back.
#include "core/sym/sym_text.h"

#include "unit/core/sym_test_support.h"

#include <gtest/gtest.h>

namespace tenon {
namespace {

using test::canonical;
using test::parse;

std::string error_of(std::string_view text) {
  try {
    parse(text);
  } catch (const UserError& error) {
    return error.what();
  }
  return "no error";
}

TEST(SymText, UsesParenthesesWhereNeeded) {
  for (const char* text : {"2*s0 + 1",
                           "s0 // 2",
                           "2*(s0 // 2)",
                           "(s0 + s1) // 3",
                           "s0 % 4",
                           "(2*s0) // s1",
                           "s0**2",
                           "-s0",
                           "s1 - s0",
                           "min(s0, 4)",
                           "max(s0, s1, 4)",
                           "ceildiv(s0, s1)",
                           "where(s0 < 3, s1, s2)",
                           "s0 <= s1",
                           "s0 > 3",
                           "s0 == 3",
                           "s0 < 3 and s1 != 3 or s2 >= 9",
                           "(s0 < 3 or s1 < 3) and s2 >= 9",
                           "not zf0 < 1.5",
                           "zf0 + 1.5",
                           "float(s0) / zf0",
                           "trunc(zf0*float(s0))",
                           "round(zf0)",
                           "s0*(s1 // s2)*s2 // 3",
                           "true",
                           "zf0*-1.0"}) {
    const Expr* expr = parse(text);
    EXPECT_EQ(parse(canonical(text)), expr) << text << " became " << canonical(text);
  }
  EXPECT_EQ(canonical("2*s0 + 1"), "2*s0 + 1");
  EXPECT_EQ(canonical("2*(s0//2)"), "2*(s0 // 2)");
  EXPECT_EQ(canonical("s1-s0"), "-s0 + s1");
}

TEST(SymText, ReadsWithPythonsPrecedence) {
  EXPECT_EQ(canonical("-s0 // 2"), "(-s0) // 2");
  EXPECT_EQ(canonical("-2**2"), "-4");
  EXPECT_EQ(canonical("2*s0 // 4 * 2"), "2*(s0 // 2)");
  EXPECT_EQ(canonical("not s0 < 3 and s1 < 3"), canonical("(not s0 < 3) and s1 < 3"));
  EXPECT_EQ(canonical("2 <= s0 <= 16"), canonical("s0 >= 2 and s0 <= 16"));
}

TEST(SymText, RealsKeepTheirBits) {
  for (double value : {0.1, 1.0, -2.5e-300, 1e300, 3.0}) {
    const Expr* real = intern_real(value);
    EXPECT_EQ(parse(test::text_of(real)), real) << test::text_of(real);
  }
  EXPECT_EQ(canonical("1e3"), "1000.0");
}

TEST(SymText, ReadsTheExtremesOfInt64) {
  EXPECT_EQ(parse("-9223372036854775808")->integer(), INT64_MIN);
  EXPECT_EQ(parse("9223372036854775807")->integer(), INT64_MAX);
  EXPECT_EQ(error_of("9223372036854775808"),
            "expression \"9223372036854775808\", column 1: expected a number of 64 bits, found "
            "'922337203685'");
  const Expr* sum = parse("s0 + -9223372036854775808");
  EXPECT_EQ(parse(test::text_of(sum)), sum);
}

TEST(SymText, ErrorsNameTheColumn) {
  EXPECT_EQ(
      error_of("s0 + "),
      "expression \"s0 + \", column 6: expected a number, a symbol or a function, found the end");
  EXPECT_EQ(error_of("s0 s1"),
            "expression \"s0 s1\", column 4: expected an operator or the end, found 's1'");
  EXPECT_EQ(error_of("sin(s0)"),
            "expression \"sin(s0)\", column 1: expected one of min max ceildiv where float trunc "
            "floor ceil round pow, found 'sin(s0)'");
  EXPECT_EQ(error_of("min(s0"), "expression \"min(s0\", column 7: expected ')', found the end");
  EXPECT_NE(error_of("where(s0, s1)"), "no error");
  EXPECT_NE(error_of("1.2.3"), "no error");
}

TEST(SymText, UnknownSymbolsAreRefused) {
  auto nothing = [](std::string_view) -> const Expr* { return nullptr; };
  EXPECT_THROW(parse_expr("q7", nothing), UserError);
}

TEST(SymText, DeepNestingIsRefusedNotCrashed) {
  EXPECT_NE(error_of(std::string(100000, '(') + "1").find("fewer nested"), std::string::npos);
  EXPECT_NE(error_of(std::string(100000, '-') + "s0").find("fewer signs"), std::string::npos);
}

}  // namespace
}  // namespace tenon
