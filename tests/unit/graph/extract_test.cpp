// Pieces of graphs: their border, constants, symbols, and what is refused.
#include "graph/extract.h"
#include "unit/graph/graph_of.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/text/parse.h"
#include "graph/text/print.h"
#include "graph/verify.h"

namespace tenon {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string refusal(const Graph& graph, std::vector<NodeId> nodes) {
  try {
    extract_nodes(graph, nodes);
  } catch (const Error& e) {
    return e.what();
  }
  return "taken";
}

TEST(Extract, TheBorderIsWhatCrosses) {
  auto graph = graph_of(R"(
  input %x: f32[4]
  input %unused: f32[4]
  %a: f32[4] = aten.relu.default(%x)
  %b: f32[4] = aten.add.Tensor(%a, %a)
  %c: f32[4] = aten.mul.Tensor(%b, %a)
  %d: f32[4] = aten.sin.default(%c)
  output %d, %b
)");
  NodeId middle[] = {1, 2};
  Extracted part = extract_nodes(*graph, middle);
  EXPECT_THAT(part.outer_inputs, ElementsAre(graph->node(0).first_result));
  EXPECT_THAT(part.outer_outputs,
              ElementsAre(graph->node(1).first_result, graph->node(2).first_result));
  EXPECT_TRUE(problems_of(*part.graph).empty());
}

TEST(Extract, ConstantsComeAlong) {
  auto graph = graph_of(R"(
  input %x: f32[2]
  constant %w: f32[2] = [1.0, 2.0]
  %a: f32[2] = aten.add.Tensor(%x, %w)
  %b: f32[2] = aten.relu.default(%a)
  output %b
)");
  NodeId first[] = {0};
  Extracted part = extract_nodes(*graph, first);
  EXPECT_EQ(part.outer_inputs.size(), 1u);
  ASSERT_EQ(part.graph->constants().size(), 1u);
  EXPECT_TRUE(part.graph->constant(part.graph->constants()[0])
                  .is_same(graph->constant(graph->constants()[0])));
}

TEST(Extract, OnlyInputsShareWhatAGraphDoesNotTell) {
  auto graph = graph_of(R"(
  input %x: i64[2, 3]
  %v: i64[3, 2] strides [1, 3] = aten.t.default(%x)
  %a: f32[2, 3] = aten.to.dtype(%x, f32)
  %b: i64[6] = aten.reshape.default(%v, [-1])
  %c: i64[3, 2] = aten.contiguous.default(%v)
  output %a, %b, %c
)");
  NodeId copies[] = {1, 2, 3};
  Extracted part = extract_nodes(*graph, copies);
  ASSERT_EQ(part.graph->inputs().size(), 2u);
  EXPECT_NE(part.graph->value(part.graph->inputs()[0]).alias_group, 0u);
  EXPECT_EQ(part.graph->value(part.graph->inputs()[0]).alias_group,
            part.graph->value(part.graph->inputs()[1]).alias_group);
  for (ValueId v : part.graph->outputs()) EXPECT_EQ(part.graph->value(v).alias_group, 0u);
}

TEST(Extract, SymbolsAreReadOffTheBorderOrBecomeInputs) {
  auto graph = graph_of(R"(
  symbol s0 in [2, inf] hint 4 from size(%x, 0)
  input %x: f32[s0, 3]
  %v: f32[3*s0] = aten.view.default(%x, [3*s0])
  %a: f32[3*s0] = aten.relu.default(%v)
  %b: f32[s0, 3] = aten.view.default(%a, [s0, 3])
  %c: f32[s0, 3] = aten.sin.default(%b)
  output %c
)");
  NodeId both[] = {1, 2}, last[] = {3};
  Extracted shown = extract_nodes(*graph, last);
  ASSERT_EQ(shown.graph->symbols.size(), 1u);
  EXPECT_EQ(shown.graph->symbols[0].dim, 0);
  EXPECT_EQ(shown.graph->inputs().size(), 1u);
  Extracted hidden = extract_nodes(*graph, both);
  EXPECT_THAT(hidden.outer_inputs, ElementsAre(graph->node(0).first_result, no_value));
  EXPECT_THAT(hidden.outer_symbols, ElementsAre(0));
  EXPECT_TRUE(problems_of(*hidden.graph).empty()) << problems_of(*hidden.graph)[0];
  // The text of a piece reads as a graph of its own.
  EXPECT_EQ(to_text(*parse_graph(to_text(*hidden.graph))), to_text(*hidden.graph));
}

TEST(Extract, WhatIsNotConvexIsRefused) {
  auto graph = graph_of(R"(
  input %x: f32[4]
  %a: f32[4] = aten.relu.default(%x)
  %b: f32[4] = aten.sin.default(%a)
  %c: f32[4] = aten.add.Tensor(%a, %b)
  output %c
)");
  EXPECT_THAT(refusal(*graph, {0, 2}), HasSubstr("the nodes are not convex: node 2 must wait"));
  EXPECT_THAT(refusal(*graph, {0, 9}), HasSubstr("node id 9 is out of range: the graph has 3"));
  EXPECT_EQ(refusal(*graph, {2, 1}), "taken");
}

TEST(Extract, AWriteInBetweenIsAPathToo) {
  auto graph = graph_of(R"(
  input %x: f32[4]
  %a: f32[4] = aten.relu.default(%x)
  %b: f32[4] = aten.add_.Tensor(%x, %x)
  %c: f32[4] = aten.sin.default(%x)
  output %a, %c
)");
  EXPECT_THAT(refusal(*graph, {0, 2}), HasSubstr("not convex"));
}

}  // namespace
}  // namespace tenon
