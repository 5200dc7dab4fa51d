// Control flow in graphs: text, rules that the verifier knows, and what the interpreter makes of
// it.
#include "graph/control_flow.h"

#include "core/sym/shape_env.h"
#include "graph/body.h"
#include "graph/interpret.h"
#include "graph/passes/passes.h"
#include "graph/symbol_use.h"
#include "graph/text/parse.h"
#include "graph/text/print.h"
#include "graph/verify.h"

#include <tenon/ops.h>

#include <gmock/gmock.h>

#include <set>

using namespace tenon;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

namespace {

using Floats = std::vector<float>;

std::string in_graph(const std::string& lines) {
  return "tng 1\ngraph @model {\n" + lines + "\n}\n";
}

// A cond of two bodies with one input and one line each.
std::string with_cond(const std::string& then, const std::string& otherwise,
                      const std::string& operand = "f32[2]", const std::string& result = "f32[2]") {
  auto body = [&](const char* name, const std::string& line) {
    return std::string("  graph @") + name + " {\n    input %a: " + operand + "\n" + line + "  }\n";
  };
  return in_graph(body("then", then) + body("else", otherwise) + "  input %x: " + operand +
                  "\n  input %p: bool[]\n  %y: " + result +
                  " = higher_order.cond.default(%p, @then, @else, [%x])\n  output %y");
}

const std::string twice = "    %r: f32[2] = aten.mul.Scalar(%a, 2)\n    output %r\n";
const std::string one_less = "    %r: f32[2] = aten.add.Scalar(%a, -1)\n    output %r\n";

// What the reader of graph text, which verifies what it reads, says.
std::string problem_of(const std::string& text) {
  try {
    parse_graph(text);
    return "";
  } catch (const UserError& error) {
    return error.what();
  }
}

std::vector<Tensor> run(const std::string& text, std::vector<Tensor> inputs) {
  auto graph = parse_graph(text);
  verify_meta(*graph);
  std::vector<detail::TensorHead*> heads;
  for (Tensor& t : inputs) heads.push_back(t.head());
  std::vector<Tensor> outputs(graph->outputs().size());
  Interpreter(graph).run(heads, {}, outputs);
  return outputs;
}

Floats values(const Tensor& t) { return t.reshape({-1}).to_vector<float>(); }

}  // namespace

TEST(ControlFlowGraph, TextIsReadAndWritten) {
  std::string text = with_cond(twice, one_less);
  EXPECT_EQ(to_text(*parse_graph(text)), text);
  EXPECT_EQ(problem_of(text), "");
}

TEST(ControlFlowGraph, ThePredicateChoosesTheBody) {
  Tensor x = tensor({1.f, 2.f});
  EXPECT_EQ(values(run(with_cond(twice, one_less), {x, full({}, true, Dtype::bool_)})[0]),
            (Floats{2, 4}));
  EXPECT_EQ(values(run(with_cond(twice, one_less), {x, full({}, false, Dtype::bool_)})[0]),
            (Floats{0, 1}));
}

TEST(ControlFlowGraph, WhatOnlyTheOtherBodyReadsHasGradientsOfZeros) {
  auto body = [](const char* name, const std::string& lines) {
    return std::string("  graph @") + name +
           " {\n    input %a: f32[2]\n    input %b: f32[2]\n    input %c: f32[2]\n" + lines +
           "  }\n";
  };
  std::string text = in_graph(
      body("then", "    %r: f32[2] = aten.mul.Tensor(%a, %b)\n    output %r\n") +
      body("else", "    %r: f32[2] = aten.mul.Tensor(%a, %c)\n    output %r\n") +
      "  input %x: f32[2]\n  input %v: f32[2]\n  input %w: f32[2]\n  input %p: bool[]\n"
      "  %y: f32[2] = higher_order.cond.default(%p, @then, @else, [%x, %v, %w])\n  output %y");
  for (bool which : {true, false}) {
    Tensor x = full({2}, 3.0), v = full({2}, 4.0), w = full({2}, 5.0);
    for (const Tensor& t : {x, v, w}) t.requires_grad_();
    run(text, {x, v, w, full({}, which, Dtype::bool_)})[0].sum().backward();
    EXPECT_EQ(values(x.grad()), which ? Floats({4, 4}) : Floats({5, 5}));
    EXPECT_EQ(values(v.grad()), which ? Floats({3, 3}) : Floats({0, 0}));
    EXPECT_EQ(values(w.grad()), which ? Floats({0, 0}) : Floats({3, 3}));
  }
}

TEST(ControlFlowGraph, BodiesUseSymbolsOfTheGraphAround) {
  std::string text = in_graph(
      "  symbol s0 in [2, inf] hint 4 from size(%n, 0)\n"
      "  graph @body {\n"
      "    input %a: f32[3]\n"
      "    %r: f32[s0] = aten.full.default([s0], 2.0)\n"
      "    %q: f32[s0, 3] = aten.outer.default(%r, %a)\n"
      "    output %q\n"
      "  }\n"
      "  input %n: f32[s0]\n"
      "  input %xs: f32[2, 3]\n"
      "  %y: f32[2, s0, 3] = higher_order.map.default(@body, [%xs], [])\n"
      "  output %y");
  EXPECT_EQ(problem_of(text), "");
  Tensor y = run(text, {zeros({2}), tensor({1.f, 2.f, 3.f, 4.f, 5.f, 6.f}).reshape({2, 3})})[0];
  EXPECT_EQ(values(y), (Floats{2, 4, 6, 2, 4, 6, 8, 10, 12, 8, 10, 12}));
}

// A model that is called by a body which is recorded.
TEST(ControlFlowGraph, IsVerifiedAmongTheSymbolsOfAnotherGraph) {
  auto graph =
      parse_graph(in_graph("  symbol s0 in [2, inf] hint 4 from size(%xs, 1)\n"
                           "  symbol s1 in [2, inf] hint 5 from size(%xs, 2)\n"
                           "  graph @body {\n    input %a: f32[s0, s1]\n"
                           "    %r: f32[s0, s1] = aten.relu.default(%a)\n    output %r\n  }\n"
                           "  input %xs: f32[2, s0, s1]\n"
                           "  %y: f32[2, s0, s1] = higher_order.map.default(@body, [%xs], [])\n"
                           "  output %y"));
  ShapeEnvScope other(*ShapeEnv::make());
  EXPECT_THAT(problems_of(*graph), IsEmpty());
}

TEST(ControlFlowGraph, ACopyHasBodiesOfItsOwn) {
  auto graph = parse_graph(with_cond(twice, one_less));
  auto copy = clone(*graph);
  ASSERT_EQ(copy->subgraphs.size(), 2u);
  EXPECT_NE(copy->subgraphs[0], graph->subgraphs[0]);
  EXPECT_EQ(copy->node(0).args[1].as<Graph>(), copy->subgraphs[0].get());
  EXPECT_EQ(to_text(*copy), to_text(*graph));
}

TEST(ControlFlowGraph, ItsNodesAreDroppedWhenNobodyReadsThem) {
  auto graph = parse_graph(with_cond(twice, one_less));
  graph->set_outputs({graph->inputs()[0]});
  EXPECT_TRUE(remove_dead_code(*graph));
  EXPECT_THAT(graph->nodes(), IsEmpty());
  EXPECT_THAT(graph->subgraphs, IsEmpty());
}

TEST(ControlFlowGraph, ResultsThatAreOperandsAreCopied) {
  auto graph = parse_graph(with_cond("    output %a\n", one_less));
  Tensor x = tensor({1.f, 2.f}), p = full({}, true, Dtype::bool_), y;
  detail::TensorHead* heads[] = {x.head(), p.head()};
  Interpreter(graph).run(heads, {}, {&y, 1});
  EXPECT_FALSE(shares_storage(x, y));
  isolate_outputs(*graph->subgraphs[0]);
  EXPECT_EQ(graph->subgraphs[0]->nodes().size(), 1u);
}

TEST(ControlFlowGraph, BodiesThatDoNotFitAreFound) {
  EXPECT_THAT(problem_of(with_cond(twice, "    output %a, %a\n")),
              HasSubstr("true_graph gives 1 results, false_graph 2"));
  EXPECT_THAT(problem_of(with_cond(twice,
                                   "    %r: i64[2] = aten.to.dtype(%a, i64)\n"
                                   "    output %r\n")),
              HasSubstr("result 0 is f32[2] of true_graph and i64[2] of false_graph"));
  EXPECT_THAT(problem_of(with_cond(twice,
                                   "    %r: f32[2] = aten.add_.Scalar(%a, 1)\n"
                                   "    output %r\n")),
              HasSubstr("false_graph writes its input 0, which it does not own"));
  EXPECT_THAT(problem_of(with_cond(twice, "    output none\n")),
              HasSubstr("a result of false_graph is not a tensor"));
  std::string other = with_cond(twice, one_less);
  other.replace(other.find("[%x]"), 4, "[%x, %x]");
  EXPECT_THAT(problem_of(other), HasSubstr("true_graph takes 1 inputs, but gets 2 operands"));
  std::string wide = with_cond(twice, one_less);
  wide.replace(wide.find("input %x: f32[2]"), 16, "input %x: f32[3]");
  EXPECT_THAT(problem_of(wide), HasSubstr("input 0 of true_graph is f32[2], but gets f32[3]"));
}

TEST(ControlFlowGraph, LoopsThatCannotGoOnAreFound) {
  auto loop = [](const std::string& verdict, const std::string& body) {
    return in_graph("  graph @c {\n    input %a: f32[2]\n" + verdict + "  }\n  graph @b {\n" +
                    "    input %a: f32[2]\n" + body + "  }\n  input %x: f32[2]\n" +
                    "  %y: f32[2] = higher_order.while_loop.default(@c, @b, [%x], [])\n"
                    "  output %y");
  };
  std::string one =
      "    %s: f32[] = aten.sum.default(%a)\n    %v: bool[] = aten.lt.Scalar(%s, 9)\n"
      "    output %v\n";
  EXPECT_EQ(problem_of(loop(one, twice)), "");
  EXPECT_THAT(problem_of(loop(twice, twice)), HasSubstr("cond_graph must give one bool"));
  EXPECT_THAT(problem_of(loop(one,
                              "    %r: f32[4] = aten.cat.default([%a, %a])\n"
                              "    output %r\n")),
              HasSubstr("result 0 of body_graph is f32[4]; expected f32[2]"));
  EXPECT_EQ(values(run(loop(one, twice), {tensor({1.f, 1.f})})[0]), (Floats{8, 8}));
}

// Results of a body's nodes are counted in the body: taken for values of the graph around it, they
// named wrong symbols, or lay behind its last value.
TEST(ControlFlow, SymbolsOfABodyAreThoseOfItsOwnValues) {
  auto body = [](const std::string& name) {
    return "  graph @" + name +
           " {\n    symbol s0 from size(%a, 0)\n    input %a: f32[s0]\n"
           "    %r: f32[s0] = aten.mul.Scalar(%a, 2)\n    %t: f32[s0] = aten.relu.default(%r)\n"
           "    output %t\n  }\n";
  };
  auto graph = parse_graph(
      in_graph("  symbol s0 hint 4 from size(%x, 0)\n  symbol s1 hint 5 from size(%y, 0)\n" +
               body("then") + body("else") +
               "  input %x: f32[s0]\n  input %y: f32[s1]\n  input %p: bool[]\n"
               "  %z: f32[s0] = higher_order.cond.default(%p, @then, @else, [%x])\n  output %z"));
  SymbolUse use(*graph);
  std::set<uint32_t> met;
  for (const Node& node : graph->nodes()) use.each_of(node, [&](uint32_t at) { met.insert(at); });
  EXPECT_EQ(met, std::set<uint32_t>{0});
}
