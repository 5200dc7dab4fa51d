// Making failing graphs smaller, with judges that look at the graph only.
#include "debug/minify/minify.h"
#include "core/sym/shape_env.h"
#include "debug/minify/judge.h"

#include "graph/text/parse.h"
#include "graph/text/print.h"
#include "ops/op_table.h"

#include <tenon/ops.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tenon {
namespace {

using testing::HasSubstr;
using testing::Not;

Candidate candidate_of(const std::string& text) { return {parse_graph(text), {}}; }

// Fails where a node of the op is anywhere in the graph, bodies included.
bool has_op(const Graph& graph, std::string_view name) {
  for (const Node& node : graph.nodes()) {
    if (entry_of(node.op).name == name) return true;
    for (const Value& a : node.args)
      if (a.tag == Tag::graph && has_op(*a.as<Graph>(), name)) return true;
  }
  return false;
}

FailureJudge fails_with(std::string_view op) {
  return [op](const Candidate& c) {
    bool fails = has_op(*c.graph, op);
    return fails ? make_failure(Failure::Kind::error, "mine: no kernel") : Failure{};
  };
}

Minified minified(Candidate whole, const FailureJudge& judge, KnownValues known = {}) {
  return minify(std::move(whole), std::move(known), judge, {});
}

constexpr const char* chain = R"(tng 1
graph @f {
  input %x: f32[4, 8]
  input %y: f32[4, 8]
  %a: f32[4, 8] = aten.relu.default(%x)
  %b: f32[4, 8] = aten.sin.default(%a)
  %c: f32[4, 8] = aten.tanh.default(%b)
  %d: f32[4, 8] = aten.mul.Tensor(%c, %y)
  %e: f32[4, 8] = aten.exp.default(%d)
  output %e, %b
}
)";

// The input that is written is a result by the end of the run, which the output need not depend on.
TEST(Judge, AsksForGradientsOfInputsThatStayLeaves) {
  auto graph = parse_graph(R"(tng 1
graph @f {
  input %x: f32[3] alias 1
  input %w: f32[3] requires_grad
  %a: f32[3] requires_grad alias 1 = aten.add_.Tensor(%x, %w)
  %b: f32[3] requires_grad = aten.mul.Scalar(%a, 2)
  output %b
}
)");
  auto tell = [](std::string_view) {};
  EXPECT_EQ(judge_graph(graph, {}, {.backend = "aot_eager", .grad = true}, tell), "");
}

TEST(Minify, LeavesTheOneNodeThatFails) {
  Minified out = minified(candidate_of(chain), fails_with("aten.tanh.default"));
  EXPECT_EQ(out.smallest.graph->nodes().size(), 1u);
  EXPECT_EQ(out.smallest.graph->inputs().size(), 1u);
  EXPECT_EQ(out.nodes, std::vector<NodeId>{2});
}

TEST(Minify, LeavesNodesTogetherThatFailOnlyTogether) {
  FailureJudge judge = [](const Candidate& c) {
    bool both = has_op(*c.graph, "aten.relu.default") && has_op(*c.graph, "aten.exp.default");
    return both ? make_failure(Failure::Kind::crash, "signal 11") : Failure{};
  };
  Minified out = minified(candidate_of(chain), judge);
  EXPECT_EQ(out.nodes, (std::vector<NodeId>{0, 4}));
}

TEST(Minify, GivesTheGraphBackWhereNothingFails) {
  Minified out = minified(candidate_of(chain), [](const Candidate&) { return Failure{}; });
  EXPECT_FALSE(out.failure);
  EXPECT_EQ(out.smallest.graph->nodes().size(), 5u);
}

TEST(Minify, FollowsTheSameFailureOnly) {
  // One node alone fails as well, but otherwise.
  FailureJudge judge = [](const Candidate& c) {
    if (!has_op(*c.graph, "aten.tanh.default")) return Failure{};
    bool is_alone = c.graph->nodes().size() == 1;
    return make_failure(Failure::Kind::error, is_alone ? "mine: too small" : "mine: no kernel");
  };
  Minified out = minified(candidate_of(chain), judge);
  EXPECT_EQ(out.smallest.graph->nodes().size(), 2u);
  EXPECT_EQ(out.failure.text, "mine: no kernel");
}

TEST(Minify, ShrinksNumbersAmongSizes) {
  Minified out = minified(candidate_of(chain), fails_with("aten.tanh.default"));
  EXPECT_THAT(to_text(*out.smallest.graph), HasSubstr("f32[1, 1]"));
}

TEST(Minify, ShrinksFactorsOfViewsAlong) {
  FailureJudge judge = fails_with("aten.view.default");
  Minified out = minified(candidate_of(R"(tng 1
graph @f {
  input %x: f32[6, 10]
  %a: f32[60] = aten.view.default(%x, [60])
  output %a
}
)"),
                          judge);
  EXPECT_THAT(to_text(*out.smallest.graph), HasSubstr("[1, 1]"));
}

TEST(Minify, KeepsSymbolsAndShrinksTheirExamples) {
  FailureJudge judge = [](const Candidate& c) {
    bool fails = has_op(*c.graph, "aten.tanh.default") && !c.graph->symbols.empty();
    return fails ? make_failure(Failure::Kind::error, "mine: no kernel") : Failure{};
  };
  Minified out = minified(candidate_of(R"(tng 1
graph @f {
  symbol s0 in [2, 64] hint 24 from size(%x, 0)
  input %x: f32[s0, 8] strides [8, 1]
  %a: f32[s0, 8] = aten.relu.default(%x)
  %b: f32[s0, 8] = aten.tanh.default(%a)
  output %b
}
)"),
                          judge);
  const Graph& graph = *out.smallest.graph;
  ASSERT_EQ(graph.symbols.size(), 1u);
  EXPECT_EQ(graph.shape_env->hint(graph.symbols[0].symbol)->integer(), 2);
}

TEST(Minify, KeepsOnlyTheValuesThatMatter) {
  Candidate whole = candidate_of(chain);
  whole.inputs = {full({4, 8}, 3.0), full({4, 8}, 2.0)};
  // Fails where an input has the value that sin(relu(3)) has.
  float wanted = std::sin(3.0f);
  FailureJudge judge = [wanted](const Candidate& c) {
    bool fails = has_op(*c.graph, "aten.tanh.default") && c.graph->nodes().size() == 5;
    for (const Tensor& t : c.inputs)
      fails = fails || (t.defined() && std::abs(t.to_vector<float>()[0] - wanted) < 1e-6f);
    return fails ? make_failure(Failure::Kind::wrong, "output 0: max abs 1") : Failure{};
  };
  KnownValues known(whole.graph->values().size());
  const Node& sine = whole.graph->node(1);
  known[sine.first_result] = full({4, 8}, wanted);
  Minified out = minified(std::move(whole), judge, known);
  EXPECT_EQ(out.smallest.graph->nodes().size(), 1u);
  EXPECT_TRUE(out.smallest.has_values());
}

TEST(Minify, TakesOneInputForSeveralAlike) {
  Minified out = minified(candidate_of(chain), fails_with("aten.mul.Tensor"));
  EXPECT_EQ(out.smallest.graph->inputs().size(), 1u);
}

TEST(Minify, LeavesOutOutputs) {
  FailureJudge judge = fails_with("aten.topk.default");
  Minified out = minified(candidate_of(R"(tng 1
graph @f {
  input %x: f32[4, 8]
  %v: f32[4, 2], %i: i64[4, 2] = aten.topk.default(%x, 2)
  output %v, %i
}
)"),
                          judge);
  EXPECT_EQ(out.smallest.graph->outputs().size(), 1u);
}

constexpr const char* branches = R"(tng 1
graph @f {
  graph @then {
    input %x: f32[4]
    %a: f32[4] = aten.sin.default(%x)
    %b: f32[4] = aten.tanh.default(%a)
    %c: f32[4] = aten.exp.default(%b)
    output %c
  }
  graph @else {
    input %x: f32[4]
    %a: f32[4] = aten.cos.default(%x)
    output %a
  }
  input %p: bool[]
  input %x: f32[4]
  %y: f32[4] = higher_order.cond.default(%p, @then, @else, [%x])
  output %y
}
)";

TEST(Minify, TakesABodyForTheControlFlow) {
  Minified out = minified(candidate_of(branches), fails_with("aten.tanh.default"));
  EXPECT_EQ(out.smallest.graph->nodes().size(), 1u);
  EXPECT_TRUE(out.smallest.graph->subgraphs.empty());
}

TEST(Minify, LeavesOutNodesOfBodiesThatMustStay) {
  FailureJudge judge = [](const Candidate& c) {
    bool fails = !c.graph->subgraphs.empty() && has_op(*c.graph, "aten.tanh.default");
    return fails ? make_failure(Failure::Kind::error, "mine: no kernel") : Failure{};
  };
  Minified out = minified(candidate_of(branches), judge);
  std::string text = to_text(*out.smallest.graph);
  EXPECT_THAT(text, HasSubstr("aten.tanh.default"));
  for (const char* gone : {"aten.sin", "aten.exp", "aten.cos"})
    EXPECT_THAT(text, Not(HasSubstr(gone)));
}

TEST(Failures, AreTheSameWithoutNumbersAndNames) {
  auto error = [](const char* text) { return make_failure(Failure::Kind::error, text); };
  EXPECT_TRUE(is_same(error("backend b: rows of 64 at add_3"), error("b: rows of 2 at add_17")));
  EXPECT_FALSE(is_same(error("b: rows overlap"), error("b: columns overlap")));
  auto wrong = [](const char* text) { return make_failure(Failure::Kind::wrong, text); };
  EXPECT_TRUE(is_same(wrong("output 0: max abs 1"), wrong("output 2: max abs 7")));
  EXPECT_FALSE(is_same(wrong("output 0: max abs 1"), wrong("output 0 is not finite: max abs inf")));
  EXPECT_FALSE(is_same(wrong("output 0: 1"), wrong("gradient of input 0: 1")));
}

TEST(SmallestPart, NeedsFewQuestionsForOne) {
  size_t asked = 0;
  auto fails = [&](const std::vector<size_t>& part) {
    ++asked;
    return std::ranges::find(part, size_t{700}) != part.end();
  };
  EXPECT_EQ(smallest_part(1000, fails), std::vector<size_t>{700});
  EXPECT_LT(asked, 60u);
}

}  // namespace
}  // namespace tenon
