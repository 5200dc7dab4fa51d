// Differences of graphs: what counts, what does not, and how they are shown.
#include "graph/text/diff.h"
#include "graph/text/parse.h"
#include "graph/text/print.h"

#include <gtest/gtest.h>

namespace tenon {
namespace {

std::shared_ptr<Graph> graph(const std::string& body) {
  return parse_graph("tng 1\ngraph @f {\n" + body + "}\n");
}

std::string diff(const std::string& a, const std::string& b, size_t context = 2) {
  return to_text(difference(*graph(a), *graph(b), context));
}

const std::string three = R"(
  input %x: f32[2]
  %a: f32[2] = aten.sin.default(%x)
  %b: f32[2] = aten.cos.default(%a)
  %c: f32[2] = aten.mul.Tensor(%a, %b)
  output %c
)";

TEST(Difference, NamesOfValuesDoNotCount) {
  EXPECT_EQ(diff(three, R"(
  input %a: f32[2]
  %c: f32[2] = aten.sin.default(%a)
  %x: f32[2] = aten.cos.default(%c)
  %b: f32[2] = aten.mul.Tensor(%c, %x)
  output %b
)"),
            "");
}

TEST(Difference, NamesOfSymbolsDoNotCount) {
  auto with = [](const std::string& s) {
    return "  symbol " + s + " in [2, inf] hint 3 from size(%x, 0)\n  input %x: f32[" + s +
           "]\n  %y: f32[" + s + "] = aten.sin.default(%x)\n  output %y\n";
  };
  EXPECT_EQ(diff(with("s0"), with("s26")), "");
}

TEST(Difference, AnotherOperandIsADifference) {
  EXPECT_EQ(diff(three, R"(
  input %x: f32[2]
  %a: f32[2] = aten.sin.default(%x)
  %b: f32[2] = aten.cos.default(%x)
  %c: f32[2] = aten.mul.Tensor(%a, %b)
  output %c
)",
                 1),
            R"(... 1 line that both have
  %a: f32[2] = aten.sin.default(%x)
- %b: f32[2] = aten.cos.default(%a)
+ %b: f32[2] = aten.cos.default(%x)
  %c: f32[2] = aten.mul.Tensor(%a, %b)
... 1 line that both have
)");
}

TEST(Difference, AnInsertedStatementStandsWhereItIs) {
  EXPECT_EQ(diff(three, R"(
  input %x: f32[2]
  %a: f32[2] = aten.sin.default(%x)
  %n: f32[2] = aten.neg.default(%a)
  %b: f32[2] = aten.cos.default(%a)
  %c: f32[2] = aten.mul.Tensor(%a, %b)
  output %c
)",
                 0),
            R"(... 2 lines that both have
+ %n: f32[2] = aten.neg.default(%a)
... 3 lines that both have
)");
}

TEST(Difference, AnotherTypeIsAChangeOfTheStatement) {
  std::string other = three;
  for (size_t at = 0; (at = other.find("f32[2]", at)) != std::string::npos; at += 6)
    other.replace(at, 6, "f32[3]");
  EXPECT_EQ(diff(three, other, 0), R"(- input %x: f32[2]
+ input %x: f32[3]
- %a: f32[2] = aten.sin.default(%x)
+ %a: f32[3] = aten.sin.default(%x)
- %b: f32[2] = aten.cos.default(%a)
+ %b: f32[3] = aten.cos.default(%a)
- %c: f32[2] = aten.mul.Tensor(%a, %b)
+ %c: f32[3] = aten.mul.Tensor(%a, %b)
... 1 line that both have
)");
}

TEST(Difference, OutputsCountInTheirOrder) {
  std::string other = three;
  other.replace(other.find("output %c"), 9, "output %b");
  EXPECT_EQ(diff(three, other, 0), "... 4 lines that both have\n- output %c\n+ output %b\n");
}

TEST(Difference, BodiesAreComparedByTheirPlaces) {
  auto scan = [](const std::string& name, const std::string& factor) {
    return "  graph @" + name + R"( {
    input %carry: f32[2]
    input %x: f32[2]
    %sum: f32[2] = aten.add.Tensor(%carry, %x)
    %out: f32[2] = aten.mul.Scalar(%sum, )" +
           factor + R"()
    output %sum, %out
  }
  input %start: f32[2]
  input %xs: f32[3, 2]
  %last: f32[2], %all: f32[3, 2] = higher_order.scan.default(@)" +
           name + R"(, [%start], [%xs], [])
  output %last, %all
)";
  };
  EXPECT_EQ(diff(scan("combine", "10.0"), scan("step", "10.0")), "");
  EXPECT_EQ(diff(scan("combine", "10.0"), scan("step", "2.0"), 0),
            R"(... 4 lines that both have
-   %out: f32[2] = aten.mul.Scalar(%sum, 10.0)
+   %out: f32[2] = aten.mul.Scalar(%sum, 2.0)
... 5 lines that both have
)");
}

// 4,000 statements that have nothing in common.
TEST(Difference, LongGraphsTakeMemoryOfTheSumOfTheirLengths) {
  auto chain = [](const std::string& op, int n) {
    std::string text = "  input %v0: f32[2]\n";
    for (int i = 0; i < n; ++i)
      text += "  %v" + std::to_string(i + 1) + ": f32[2] = aten." + op + ".default(%v" +
              std::to_string(i) + ")\n";
    return text + "  output %v" + std::to_string(n) + "\n";
  };
  auto lines = difference(*graph(chain("sin", 2000)), *graph(chain("cos", 2000)), 0);
  EXPECT_EQ(lines.size(), 4003u);
  EXPECT_TRUE(difference(*graph(chain("sin", 2000)), *graph(chain("sin", 2000))).empty());
}

}  // namespace
}  // namespace tenon
