// Graph text: printing, parsing, the JSON twin, the canonical form and what is refused.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <limits>
#include <sstream>

#include "core/sym/shape_env.h"
#include "core/tensor/tensor_impl.h"
#include "folders.h"
#include "formats/graph_json.h"
#include "graph/hash.h"
#include "graph/text/document.h"
#include "graph/text/dot.h"
#include "graph/text/elements.h"
#include "graph/text/parse.h"
#include "graph/text/print.h"
#include "graph/verify.h"
#include "ops/op_table.h"
#include "unit/graph/test_ops.h"

namespace tenon {
namespace {

const std::string whole = R"(tng 1
graph @whole {
  symbol s0 in [2, inf] hint 8 from size(%x, 0)
  symbol s1 in [-inf, 64] hint 3 from %n
  input %x: f32[s0, 3] requires_grad
  input %n: int s1
  constant %scale: f32[3] = [1.0, 0.5, 0.1]
  %y: f32[s0, 3] = aten.add.Tensor(%x, %scale, alpha=2)  )"
                          R"({name "add_1", module "layers.0", at "model.cpp":12 in "forward", )"
                          R"(seq 4, "recompute" = "must_save"}
  %t: f32[3, s0] strides [1, 3] alias 1 = aten.transpose.int(%y, 0, 1)
  constant %late: i64[2] = [-9223372036854775808, 7]
  %v6: f32[3, s0] strides [1, 3] alias 1 = aten.transpose.int(%y, 1, 0)
  %z: f32[2*s0, 3] internal = aten.cat.default([%y, %x])
  output %t, none, %z
}
)";

std::string round_trip(const std::string& text) { return to_text(*parse_graph(text)); }

std::string in_graph(const std::string& body) { return "tng 1\ngraph {\n" + body + "\n}\n"; }

std::string error_of(const std::string& text) {
  try {
    parse_graph(text);
  } catch (const UserError& error) {
    return error.what();
  }
  return "no error";
}

TEST(GraphText, ComesBackAsItWasWritten) { EXPECT_EQ(round_trip(whole), whole); }

TEST(GraphText, TheExampleOfItsPageIsExact) {
  std::ifstream page(source_path("docs/graph-text.md"));
  std::stringstream read;
  read << page.rdbuf();
  std::string text = read.str();
  size_t begin = text.find("tng 1\n"), end = text.find("```", begin);
  ASSERT_NE(begin, std::string::npos);
  EXPECT_EQ(round_trip(text.substr(begin, end - begin)), text.substr(begin, end - begin));
}

TEST(GraphText, AssumptionsThatTheRangesTellAreLeftOut) {
  auto graph =
      parse_graph(in_graph("  symbol s0 in [2, 64] hint 6 from size(%x, 0)\n"
                           "  assume s0 < 100\n"
                           "  assume s0 <= 32\n"
                           "  assume s0 % 2 == 0\n"
                           "  input %x: f32[s0]\n"
                           "  output %x"));
  EXPECT_EQ(to_text(*graph), in_graph("  symbol s0 in [2, 32] hint 6 from size(%x, 0)\n"
                                      "  assume s0 % 2 == 0\n"
                                      "  input %x: f32[s0]\n"
                                      "  output %x"));
}

TEST(GraphText, KeepsIdsNamesFlagsAndFacts) {
  auto graph = parse_graph(whole);
  EXPECT_EQ(graph->name, "whole");
  EXPECT_EQ(graph->values().size(), 8u);
  EXPECT_EQ(graph->value(6).name, "");
  EXPECT_EQ(graph->value(0).name, "x");
  EXPECT_TRUE(graph->value(0).flags.requires_grad);
  EXPECT_EQ(graph->node(0).module_path, "layers.0");
  EXPECT_EQ(graph->node(0).where.line, 12);
  EXPECT_EQ(graph->node(0).seq_nr, 4);
  EXPECT_EQ(graph->node(0).facts.at("recompute"), "must_save");
  EXPECT_EQ(graph->value(4).alias_group, 1u);
  EXPECT_TRUE(graph->value(4).flags.user_output);
  EXPECT_FALSE(graph->value(7).flags.user_output);
  EXPECT_EQ(graph->outputs()[1], no_value);
  EXPECT_EQ(graph->symbols.size(), 2u);
  EXPECT_EQ(graph->symbols[0].dim, 0);
  EXPECT_EQ(graph->symbols[1].dim, -1);
}

TEST(GraphText, KeepsTheOrderOfInputsWhereANodeWithoutResultsReadsTheLastOneFirst) {
  std::string text =
      "tng 1\n"
      "graph {\n"
      "  input %a: f32[2]\n"
      "  input %b: f32[2]\n"
      "  input %c: bool[2]\n"
      "  aten._assert_tensor_metadata.default(%c, dtype=bool)\n"
      "  %y: f32[2] = aten.where.self(%c, %a, %b)\n"
      "  output %y\n"
      "}\n";
  EXPECT_EQ(round_trip(text), text);
}

TEST(GraphText, ReadsElementsExactly) {
  auto graph = parse_graph(whole);
  EXPECT_EQ(graph->constant(2).to_vector<float>(), (std::vector<float>{1.0f, 0.5f, 0.1f}));
  EXPECT_EQ(graph->constant(5).to_vector<int64_t>(),
            (std::vector<int64_t>{std::numeric_limits<int64_t>::min(), 7}));
}

TEST(GraphText, FillsInDefaultsOfTheSchema) {
  auto graph = parse_graph(
      in_graph("  input %x: f32[2]\n  %y: f32[2] = aten.add.Tensor(%x, %x)\n  output %y"));
  ASSERT_EQ(graph->node(0).args.size(), 3u);
  EXPECT_EQ(graph->node(0).args[2].tag, Tag::integer);
  EXPECT_EQ(graph->node(0).args[2].payload, 1u);
}

TEST(GraphText, TellsTheNumberOneFromTheRealOne) {
  std::string text = in_graph(
      "  input %x: f32[2]\n  %y: f32[2] = aten.add.Tensor(%x, %x, alpha=1.0)\n  output %y");
  EXPECT_EQ(parse_graph(text)->node(0).args[2].tag, Tag::floating);
  EXPECT_EQ(round_trip(text), text);
}

TEST(GraphText, WritesEveryKindOfArgument) {
  std::string text = in_graph(
      "  input %x: f32[2]\n"
      "  graph_test.say.default(%x, \"a \\\"b\\\"\\n\\x01\", [1e-05, inf, nan, -inf], [false, "
      "true], "
      "[\"p\", \"q\"])\n"
      "  graph_test.say.default(%x, \"\", mask=[false, false])\n"
      "  input %m: f32[3, 2]\n"
      "  input %j: i64[2]\n"
      "  %z: f16[2, 2] = aten.zeros.default([2, 2], dtype=f16, layout=strided, device=cpu, "
      "pin_memory=false)\n"
      "  %i: f32[3, 2] = aten.index.Tensor(%m, [none, %j])\n"
      "  %a: f32[1] alias 1, %b: f32[1] offset 1 alias 1 = aten.split.Tensor(%x, 1)\n"
      "  output %z, %i, %a, %b");
  EXPECT_EQ(round_trip(text), text);
  EXPECT_EQ(to_text(*formats::parse_graph_json(formats::to_json(*parse_graph(text)))), text);
}

TEST(GraphText, KeepsPropertiesOfValues) {
  std::string text = in_graph(
      "  input %x: f32[2, 3] strides [4, 1] offset 5 on cuda:1 parameter buffer static_address "
      "mutated "
      "requires_grad saved tangent user_output alias 3\n"
      "  input %\"odd name\": bool[]\n"
      "  input %u: undefined\n"
      "  input %k: none\n"
      "  input %p: float 0.5\n"
      "  input %b: bool true\n"
      "  output %\"odd name\"");
  EXPECT_EQ(round_trip(text), text);
  EXPECT_EQ(to_text(*formats::parse_graph_json(formats::to_json(*parse_graph(text)))), text);
}

TEST(GraphText, KeepsSubGraphsAndTheirSymbols) {
  std::string text = in_graph(
      "  symbol s0 in [2, inf] hint 4 from size(%x, 0)\n"
      "  graph @then {\n"
      "    symbol s0 from size(%a, 0)\n"
      "    input %a: f32[s0]\n"
      "    %r: f32[s0] = aten.relu.default(%a)\n"
      "    output %r\n"
      "  }\n"
      "  graph @g1 {\n"
      "    input %v0: f32[s0]\n"
      "    output %v0\n"
      "  }\n"
      "  input %x: f32[s0]\n"
      "  input %p: bool[]\n"
      "  %y: f32[s0] = graph_test.choose.default(%p, @then, @g1, [%x])\n"
      "  output %y");
  EXPECT_EQ(round_trip(text), text);
  auto graph = parse_graph(text);
  EXPECT_EQ(graph->subgraphs[1]->name, "");
  EXPECT_EQ(graph->node(0).args[1].as<Graph>(), graph->subgraphs[0].get());
  EXPECT_EQ(to_text(*formats::parse_graph_json(formats::to_json(*graph))), text);
}

TEST(GraphText, KeepsRunTimeSymbolsAndAssumptions) {
  std::string text = in_graph(
      "  symbol s0 in [2, inf] hint 6 from size(%x, 0)\n"
      "  symbol u0 size_like in [0, inf] from size(%n, 0)\n"
      "  assume s0 % 2 == 0\n"
      "  input %x: f32[s0]\n"
      "  %n: i64[u0, 1] strides [1, u0] = aten.nonzero.default(%x)\n"
      "  output %n");
  EXPECT_EQ(round_trip(text), text);
  EXPECT_EQ(to_text(*formats::parse_graph_json(formats::to_json(*parse_graph(text)))), text);
  auto graph = parse_graph(text);
  EXPECT_TRUE(graph->shape_env->info(graph->symbols[1].symbol).unbacked);
}

TEST(GraphText, CommentsAndSpacesDoNotCount) {
  auto graph = parse_graph(
      "\n# a comment\ntng 1 # version\ngraph {  \n\n  input %x: f32[2,3]  # an input\n"
      "  %y: f32[2,3]=aten.add.Tensor(%x,\n      %x)\n  output %y\n}\n# end\n");
  EXPECT_EQ(
      to_text(*graph),
      in_graph("  input %x: f32[2, 3]\n  %y: f32[2, 3] = aten.add.Tensor(%x, %x)\n  output %y"));
}

TEST(GraphText, WritesNaNWithContentAsBytes) {
  Graph graph;
  Tensor t = make_tensor({2}, Dtype::f32);
  uint32_t bits[] = {0xFFC00001u, 0x7FC00000u};
  std::memcpy(t.data(), bits, 8);
  graph.set_outputs({graph.add_constant(t, "c")});
  std::string text = to_text(graph);
  EXPECT_NE(text.find("bytes \"0100c0ff0000c07f\""), std::string::npos) << text;
  auto again = parse_graph(text);
  EXPECT_EQ(std::memcmp(again->constant(0).data(), bits, 8), 0);
}

TEST(GraphText, KeepsStridesAndOffsetsOfConstants) {
  std::string text = in_graph(
      "  constant %c: f32[2, 2] strides [1, 2] offset 1 internal = [1.0, 2.0, 3.0, 4.0]\n  output "
      "%c");
  EXPECT_EQ(round_trip(text), text);
}

TEST(GraphText, LargeConstantsComeFromTheCallerAndAreChecked) {
  Graph graph;
  Tensor big = make_tensor({5, 5}, Dtype::f64);
  for (int i = 0; i < 25; ++i) big.data_ptr<double>()[i] = i;
  graph.set_outputs({graph.add_constant(big, "big")});
  std::string text = to_text(graph);
  EXPECT_NE(text.find("sha256"), std::string::npos);
  EXPECT_NE(error_of(text).find("constant %big are not in the text"), std::string::npos);
  ParseOptions options;
  options.constant = [&](const MissingConstant&) { return big; };
  EXPECT_EQ(to_text(*parse_graph(text, options)), text);
  big.data_ptr<double>()[3] = -1;
  EXPECT_THROW(parse_graph(text, options), UserError);
}

TEST(GraphText, KeepsNumbersThatPromoteByCategoryOnly) {
  Graph graph;
  graph.set_outputs({graph.add_constant(wrapped_number_tensor(2.5), "c")});
  auto again = parse_graph(to_text(graph));
  EXPECT_TRUE(is_wrapped_number(again->constant(0)));
  EXPECT_EQ(to_text(*again), to_text(graph));
}

TEST(GraphText, NamesEveryUnknownOp) {
  std::string text = in_graph(
      "  input %x: f32[2]\n  %y: f32[2] = aten.no_such.default(%x, [1, f32], k=@g)\n"
      "  %z: f32[2] = my.other.default(%y)\n  output %z");
  try {
    parse_graph(text);
    FAIL();
  } catch (const UserError& error) {
    EXPECT_EQ(error.code(), ErrorCode::unsupported);
    EXPECT_NE(std::string(error.what()).find("aten.no_such.default, my.other.default"),
              std::string::npos)
        << error.what();
  }
}

TEST(GraphText, ErrorsTellTheLineAndColumn) {
  std::string input = "  input %x: f32[2]\n";
  const std::pair<std::string, std::string> cases[] = {
      {"", "line 1, column 1: expected 'tng 1'"},
      {"tng 2\n", "line 1, column 5: this is version 2"},
      {in_graph("  input %x: f99[2]\n  output"), "line 3, column 13: there is no dtype f99"},
      {in_graph("  input %x: f32[-2]\n  output"),
       "line 3, column 17: expected a number from 0 upward"},
      {in_graph("  input %x: f32[s0]\n  output"), "line 3, column 17"},
      {in_graph(input + input + "  output"), "line 4, column 9: %x is defined twice"},
      {in_graph(input + "  output %y"), "line 4, column 10: %y is used here but not defined"},
      {in_graph(input + "  %y: f32[2] = aten.add.Tensor(%x)\n  output"),
       "argument other is missing"},
      {in_graph(input + "  %y: f32[2] = aten.add.Tensor(%x, %x, beta=1)\n  output"),
       "has no argument beta"},
      {in_graph(input + "  %y: f32[2] = aten.add.Tensor(%x, %x, self=%x)\n  output"),
       "given twice"},
      {in_graph(input + "  %y: f32[2] = aten.relu.default(3)\n  output"),
       "argument self does not fit"},
      {in_graph(input + "  %y: f32[2], %z: f32[2] = aten.relu.default(%x)\n  output"), "2 results"},
      {in_graph("  constant %c: f32[2] = [1.0]\n  output"),
       "8 bytes of elements are needed, found 4"},
      {in_graph("  constant %c: i8[1] = [300]\n  output"), "an integer that the dtype holds"},
      {in_graph(input + "  output %x\n  output %x"), "expected '}' after the outputs"},
      {in_graph("  input %\"x: f32[2]\n  output"), "no closing quote"},
      {in_graph("  input $x: f32[2]\n  output"), "line 3, column 9: unexpected character '$'"},
      {in_graph("  symbol s0 in [5, 2] from size(%x, 0)\n" + input + "  output"), "symbol s0"},
      {in_graph("  symbol z float size_like in [0, 4] hint 1.0 from %x\n" + input + "  output"),
       "only integers have ranges"},
      {in_graph("  symbol and from size(%x, 0)\n" + input + "  output"),
       "cannot be the name of a symbol"},
      {in_graph("  symbol s0 hint 3 from size(%x, 4)\n" + input + "  output"), "dimension 4"},
  };
  for (const auto& [text, expected] : cases)
    EXPECT_NE(error_of(text).find(expected), std::string::npos) << text << error_of(text);
}

TEST(GraphText, HostileTextsAreRefusedWithoutHarm) {
  std::string brackets(100000, '['), parentheses(100000, '('), minus(100000, '-'), graphs;
  for (int i = 0; i < 1000; ++i) graphs += "graph {\n";
  std::string dims = "0";
  for (int i = 0; i < 100; ++i) dims += ", 1";
  const std::string texts[] = {
      in_graph("  input %x: f32[2]\n  %y: f32[2] = aten.add.Tensor(" + brackets),
      in_graph("  input %x: f32[" + parentheses),
      in_graph("  input %x: f32[" + minus + "s0]\n  output"),
      "tng 1\n" + graphs,
      in_graph("  input %x: f32[" + dims + "]\n  output"),
      in_graph("  input %x: f32[9223372036854775807, 9223372036854775807]\n  output"),
      in_graph("  input %x: f32[4611686018427387904, 3] strides [0, 0]\n  output"),
      in_graph("  constant %c: f32[1] strides [1] offset 4611686018427387904 = [1.0]\n  output"),
      in_graph("  constant %c: f32[4611686018427387904, 4] = []\n  output"),
      in_graph("  constant %c: f32[4000000000, 0, 4000000000, 4000000000] = []\n  output"),
      in_graph("  constant %c: f32[2] strides [1000000000000] = [1.0, 2.0]\n  output"),
      in_graph("  input %" + std::string(100000, 'x') + ": f32[2]\n  output"),
      in_graph("  input %x: int 99999999999999999999\n  output"),
      in_graph("  input %x: f32[2] alias 99999999999\n  output"),
  };
  for (const std::string& text : texts) {
    std::string error = error_of(text);
    EXPECT_NE(error, "no error") << text.substr(0, 200);
    EXPECT_NE(error.find("graph text"), std::string::npos) << error;
    EXPECT_LT(error.size(), 1000u);
  }
}

TEST(GraphText, EveryPrefixIsReadOrRefusedCleanly) {
  for (size_t n = 0; n < whole.size(); ++n) error_of(whole.substr(0, n));
  for (size_t n = 0; n < whole.size(); ++n) {
    std::string text = whole;
    text[n] = '(';
    error_of(text);
  }
}

TEST(GraphJson, HoldsWhatTheTextHolds) {
  auto graph = parse_graph(whole);
  EXPECT_EQ(to_text(*formats::parse_graph_json(formats::to_json(*graph))), whole);
}

TEST(GraphJson, RefusesWhatIsNoGraph) {
  std::string nested(100000, '[');
  for (std::string text :
       {std::string("{"), std::string("[]"), std::string("{\"format\": \"tng\"}"), nested,
        std::string("{\"format\":\"tng\",\"version\":1,\"graph\":{\"name\":3}}"),
        std::string("{\"format\":\"other\",\"version\":1,\"graph\":{}}")})
    EXPECT_THROW(formats::parse_graph_json(text), UserError) << text.substr(0, 80);
  try {
    formats::parse_graph_json(R"({"format": "tng", "version": 1, "graph": {"name": 3}})");
  } catch (const UserError& error) {
    EXPECT_STREQ(error.what(), "graph: graph.name: expected a string, found an integer 3");
  }
}

TEST(CanonicalText, ForgetsNamesPlacesAndSymbolNumbers) {
  auto a = parse_graph(whole);
  std::string renamed = whole;
  auto replace = [&](const std::string& from, const std::string& to) {
    for (size_t at = 0; (at = renamed.find(from, at)) != std::string::npos; at += to.size())
      renamed.replace(at, from.size(), to);
  };
  replace("%y", "%sum");
  replace("s0", "s7");
  replace("@whole", "@other");
  replace("model.cpp", "other.cpp");
  auto b = parse_graph(renamed);
  EXPECT_EQ(canonical_text(*a), canonical_text(*b));
  EXPECT_EQ(hash_of(*a), hash_of(*b));
  EXPECT_TRUE(structurally_equal(*a, *b) || a->value(3).name != b->value(3).name);
  replace("alpha=2", "alpha=3");
  EXPECT_NE(hash_of(*a), hash_of(*parse_graph(renamed)));
}

TEST(CanonicalText, IsATextThatReadsBackAsItself) {
  std::string canonical = canonical_text(*parse_graph(whole));
  EXPECT_EQ(round_trip(canonical).find("alpha"), round_trip(canonical).find("alpha"));
  EXPECT_EQ(canonical_text(*parse_graph(canonical)), canonical);
}

TEST(CanonicalText, DoesNotDependOnWhenAConstantWasAdded) {
  std::string early = in_graph(
      "  constant %c: f32[1] = [2.0]\n  input %x: f32[1]\n"
      "  %y: f32[1] = aten.relu.default(%x)\n  %z: f32[1] = aten.mul.Tensor(%y, %c)\n  output %z");
  std::string late = in_graph(
      "  input %x: f32[1]\n  %y: f32[1] = aten.relu.default(%x)\n"
      "  constant %c: f32[1] = [2.0]\n  %z: f32[1] = aten.mul.Tensor(%y, %c)\n  output %z");
  EXPECT_EQ(hash_of(*parse_graph(early)), hash_of(*parse_graph(late)));
}

TEST(StructuralEquality, MatchesSymbolsOfTwoEnvironmentsByPlace) {
  auto a = parse_graph(whole), b = parse_graph(whole);
  EXPECT_NE(a->shape_env, b->shape_env);
  EXPECT_TRUE(structurally_equal(*a, *b));
  EXPECT_EQ(structural_hash(*a), structural_hash(*b));
}

TEST(StructuralEquality, SeesEveryDifferenceThatMatters) {
  auto a = parse_graph(whole);
  const std::pair<std::string, std::string> edits[] = {
      {"alpha=2", "alpha=3"},         {"%t, none, %z", "%t, %z, none"},
      {"requires_grad", "parameter"}, {"[1.0, 0.5, 0.1]", "[1.0, 0.5, 0.2]"},
      {"\"must_save\"", "\"must\""},  {"[%y, %x]", "[%x, %y]"},
      {"size(%x, 0)", "size(%x, 1)"}, {" alias 1", " alias 2"}};
  for (const auto& [from, to] : edits) {
    std::string text = whole;
    text.replace(text.find(from), from.size(), to);
    auto b = parse_graph(text);
    EXPECT_FALSE(structurally_equal(*a, *b)) << to;
  }
}

TEST(StructuralEquality, IgnoresNamesAndLocations) {
  std::string text = whole;
  text.replace(text.find("forward"), 7, "elsewhere");
  text.replace(text.find("@whole"), 6, "@other");
  auto a = parse_graph(whole), b = parse_graph(text);
  EXPECT_TRUE(structurally_equal(*a, *b));
  EXPECT_EQ(structural_hash(*a), structural_hash(*b));
}

TEST(GraphDot, DrawsNodesEdgesAndSubGraphs) {
  std::string dot = to_dot(*parse_graph(whole));
  EXPECT_NE(dot.find("n0 [label=\"aten.add.Tensor\\nlayers.0\""), std::string::npos) << dot;
  EXPECT_NE(dot.find("v0 -> n0 [label=\"f32[s0, 3]\"]"), std::string::npos) << dot;
  EXPECT_NE(dot.find("n0 -> n1"), std::string::npos);
}

TEST(NodeText, IsTheLineOfTheNode) {
  EXPECT_EQ(node_text(*parse_graph(whole), 1),
            "%t: f32[3, s0] strides [1, 3] alias 1 = aten.transpose.int(%y, 0, 1)");
}

TEST(Sha256, IsTheKnownDigest) {
  Digest digest = sha256("abc");
  EXPECT_EQ(to_hex({reinterpret_cast<const char*>(digest.data()), 32}),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

}  // namespace
}  // namespace tenon
