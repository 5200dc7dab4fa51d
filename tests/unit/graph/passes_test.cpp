// Passes: what they remove, and above all what they leave alone.
#include "graph/passes/passes.h"
#include "unit/graph/graph_of.h"

#include <gtest/gtest.h>

#include "core/tensor/tensor_impl.h"
#include "graph/interpret.h"
#include "graph/passes/aliasing.h"
#include "graph/text/parse.h"
#include "graph/text/print.h"
#include "graph/verify.h"
#include "unit/graph/test_ops.h"

namespace tenon {
namespace {

std::vector<std::string> ops_of(const Graph& graph) {
  std::vector<std::string> names;
  for (const Node& node : graph.nodes()) {
    std::string name = name_of(node.op);
    size_t dot = name.find('.') + 1;  // without namespace and overload
    names.push_back(name.substr(dot, name.rfind('.') - dot));
  }
  return names;
}

using Ops = std::vector<std::string>;

template <class Pass>
Ops after(const std::string& body, Pass pass) {
  auto graph = graph_of(body);
  size_t before = graph->nodes().size();
  std::string text = to_text(*graph);
  bool changed = pass(*graph);
  EXPECT_NO_THROW(verify(*graph)) << to_text(*graph);
  EXPECT_NO_THROW(parse_graph(to_text(*graph))) << to_text(*graph);
  EXPECT_EQ(changed, to_text(*graph) != text);
  EXPECT_LE(graph->nodes().size(), before);
  return ops_of(*graph);
}

Ops after_dead_code(const std::string& body) {
  return after(body, [](Graph& g) { return remove_dead_code(g); });
}
Ops after_merge(const std::string& body) {
  return after(body, [](Graph& g) { return merge_common_subexpressions(g); });
}
Ops after_fold(const std::string& body) {
  return after(body, [](Graph& g) { return fold_constants(g); });
}
Ops after_canonical(const std::string& body) {
  return after(body, [](Graph& g) { return canonicalize(g); });
}

// ---- dead code

TEST(DeadCode, RemovesWhatNobodyReads) {
  EXPECT_EQ(after_dead_code(R"(input %x: f32[2]
    %a: f32[2] = aten.relu.default(%x)
    %b: f32[2] = aten.mul.Tensor(%a, %a)
    %c: f32[2] = aten.add.Tensor(%x, %x)
    output %c)"),
            Ops{"add"});
}

TEST(DeadCode, ChangesNothingWhereAllIsRead) {
  EXPECT_EQ(after_dead_code(R"(input %x: f32[2]
    %a: f32[2] = aten.relu.default(%x)
    output %a)"),
            Ops{"relu"});
}

TEST(DeadCode, KeepsSideEffects) {
  EXPECT_EQ(after_dead_code(R"(input %x: f32[2]
    %a: f32[2] = aten.relu.default(%x)
    graph_test.say.default(%a, "text")
    output %x)"),
            (Ops{"relu", "say"}));
}

TEST(DeadCode, RemovesAssertionsOfWhatIsTrueByNow) {
  EXPECT_EQ(after_dead_code(R"(symbol s0 in [0, inf] from size(%x, 0)
input %x: f32[s0]
aten._assert_scalar.default(true, "known")
aten._assert_scalar.default(s0 <= 3, "to be seen")
output %x
)"),
            Ops{"_assert_scalar"});
}

TEST(DeadCode, KeepsWritesToInputsThroughViews) {
  EXPECT_EQ(after_dead_code(R"(input %x: f32[2, 2] alias 1
    %t: f32[2, 2] strides [1, 2] alias 1 = aten.transpose.int(%x, 0, 1)
    %w: f32[2, 2] strides [1, 2] alias 1 = aten.add_.Tensor(%t, %t)
    output)"),
            (Ops{"transpose", "add_"}));
}

TEST(DeadCode, KeepsWritesThatAnOutputSees) {
  EXPECT_EQ(after_dead_code(R"(input %x: f32[2]
    %a: f32[2] alias 1 = aten.clone.default(%x)
    %w: f32[2] alias 1 = aten.relu_.default(%a)
    output %a)"),
            (Ops{"clone", "relu_"}));
}

TEST(DeadCode, KeepsWritesThatAreReadLaterAndRemovesTheOthers) {
  EXPECT_EQ(after_dead_code(R"(input %x: f32[2]
    %a: f32[2] alias 1 = aten.clone.default(%x)
    %w: f32[2] alias 1 = aten.relu_.default(%a)
    %y: f32[2] = aten.add.Tensor(%a, %x)
    %z: f32[2] alias 1 = aten.add_.Tensor(%a, %x)
    output %y)"),
            (Ops{"clone", "relu_", "add"}));
}

TEST(DeadCode, RemovesAWriteToMemoryThatNobodySees) {
  EXPECT_EQ(after_dead_code(R"(input %x: f32[2]
    %a: f32[2] alias 1 = aten.clone.default(%x)
    %w: f32[2] alias 1 = aten.relu_.default(%a)
    output %x)"),
            Ops{});
}

TEST(DeadCode, RemovesRandomOpsUnlessTheirNumbersCount) {
  std::string text = R"(input %x: f32[2]
    %r: f32[2] = aten.rand_like.default(%x)
    output %x)";
  EXPECT_EQ(after_dead_code(text), Ops{});
  EXPECT_EQ(after(text, [](Graph& g) { return remove_dead_code(g, {.keep_random = true}); }),
            Ops{"rand_like"});
}

TEST(DeadCode, KeepsTheNodeThatGivesAUsedSymbolItsValue) {
  EXPECT_EQ(after_dead_code(R"(symbol u0 size_like in [0, inf] from size(%n, 0)
    input %x: f32[4]
    %n: i64[u0, 1] = aten.nonzero.default(%x)
    %z: f32[u0] = aten.zeros.default([u0])
    output %z)"),
            (Ops{"nonzero", "zeros"}));
  EXPECT_EQ(after_dead_code(R"(symbol u0 size_like in [0, inf] from size(%n, 0)
    input %x: f32[4]
    %n: i64[u0, 1] = aten.nonzero.default(%x)
    output %x)"),
            Ops{});
}

TEST(DeadCode, LooksIntoSubGraphs) {
  auto text = [](const std::string& body) {
    return R"(graph @then {
      input %a: f32[2] alias 1
      )" + body +
           R"(
      output %a
    }
    input %p: bool[]
    input %x: f32[2]
    %y: f32[2] = graph_test.choose.default(%p, @then, @then, [%x])
    output %x)";
  };
  EXPECT_EQ(after_dead_code(text("%r: f32[2] = aten.relu.default(%a)")), Ops{});
  EXPECT_EQ(after_dead_code(text("%r: f32[2] alias 1 = aten.relu_.default(%a)")), Ops{"choose"});
}

// ---- common subexpressions

TEST(CommonSubexpressions, AreComputedOnce) {
  EXPECT_EQ(after_merge(R"(input %x: f32[2]
    %a: f32[2] = aten.relu.default(%x)
    %b: f32[2] = aten.relu.default(%x)
    %c: f32[2] = aten.mul.Tensor(%a, %a)
    %d: f32[2] = aten.mul.Tensor(%b, %a)
    %e: f32[2] = aten.add.Tensor(%c, %d)
    output %e)"),
            (Ops{"relu", "mul", "add"}));
}

TEST(CommonSubexpressions, ListsAndSeveralResultsMergeToo) {
  EXPECT_EQ(after_merge(R"(input %x: f32[2, 2]
    %a: f32[2, 2] = aten.relu.default(%x)
    %b: f32[2, 2] = aten.relu.default(%x)
    %m: f32[2], %i: i64[2] = aten.max.dim(%a, 0)
    %n: f32[2], %j: i64[2] = aten.max.dim(%b, 0)
    %c: f32[8] = aten.cat.default([%m, %m, %n, %n])
    %d: f32[8] = aten.cat.default([%m, %n, %n, %m])
    %e: f32[8] = aten.mul.Tensor(%c, %d)
    output %e)"),
            (Ops{"relu", "max", "cat", "mul"}));
}

TEST(CommonSubexpressions, OtherArgumentsAreOtherValues) {
  EXPECT_EQ(after_merge(R"(input %x: f32[2]
    %a: f32[2] = aten.add.Tensor(%x, %x)
    %b: f32[2] = aten.add.Tensor(%x, %x, alpha=2)
    %c: f32[2] = aten.add.Tensor(%x, %x, alpha=1.0)
    %d: f32[6] = aten.cat.default([%a, %b, %c])
    output %d)"),
            (Ops{"add", "add", "add", "cat"}));
}

TEST(CommonSubexpressions, RandomOpsStay) {
  EXPECT_EQ(after_merge(R"(input %x: f32[2]
    %a: f32[2] = aten.rand_like.default(%x)
    %b: f32[2] = aten.rand_like.default(%x)
    %c: f32[2] = aten.mul.Tensor(%a, %b)
    output %c)"),
            (Ops{"rand_like", "rand_like", "mul"}));
}

TEST(CommonSubexpressions, ReadsAroundAWriteStay) {
  EXPECT_EQ(after_merge(R"(input %x: f32[2] alias 1
    %a: f32[2] = aten.relu.default(%x)
    %w: f32[2] alias 1 = aten.add_.Tensor(%x, %x)
    %b: f32[2] = aten.relu.default(%x)
    %c: f32[2] = aten.mul.Tensor(%a, %b)
    output %c)"),
            (Ops{"relu", "add_", "relu", "mul"}));
}

TEST(CommonSubexpressions, MemoryThatIsWrittenLaterStaysApart) {
  EXPECT_EQ(after_merge(R"(input %x: f32[2]
    %a: f32[2] alias 1 = aten.clone.default(%x)
    %b: f32[2] = aten.clone.default(%x)
    %w: f32[2] alias 1 = aten.relu_.default(%a)
    %c: f32[2] = aten.mul.Tensor(%w, %b)
    output %c)"),
            (Ops{"clone", "clone", "relu_", "mul"}));
}

TEST(CommonSubexpressions, TwoOutputsStayTwoTensors) {
  EXPECT_EQ(after_merge(R"(input %x: f32[2]
    %a: f32[2] = aten.relu.default(%x)
    %b: f32[2] = aten.relu.default(%x)
    output %a, %b)"),
            (Ops{"relu", "relu"}));
  EXPECT_EQ(after_merge(R"(input %x: f32[2]
    %a: f32[2] = aten.relu.default(%x)
    %b: f32[2] = aten.relu.default(%x)
    %c: f32[2] = aten.relu.default(%x)
    %d: f32[2] = aten.mul.Tensor(%b, %c)
    output %a, %d)"),
            (Ops{"relu", "mul"}));
}

TEST(CommonSubexpressions, ADuplicateThatIsAnOutputLeavesItsName) {
  auto graph = graph_of(R"(input %x: f32[2]
    %a: f32[2] = aten.relu.default(%x)
    %c: f32[2] = aten.mul.Tensor(%a, %a)
    %b: f32[2] = aten.relu.default(%x)
    output %b)");
  EXPECT_TRUE(merge_common_subexpressions(*graph));
  EXPECT_EQ(graph->outputs()[0], 1u);
  EXPECT_TRUE(graph->value(1).flags.user_output);
}

// ---- folding

TEST(Fold, RunsNodesOverConstants) {
  auto graph = graph_of(R"(input %x: f32[2]
    constant %a: f32[2] = [1.0, 2.0]
    constant %b: f32[2] = [3.0, 4.0]
    %s: f32[2] = aten.add.Tensor(%a, %b, alpha=2)
    %m: f32[2] = aten.mul.Tensor(%s, %s)
    %y: f32[2] = aten.add.Tensor(%x, %m)
    output %y)");
  EXPECT_TRUE(fold_constants(*graph));
  verify(*graph);
  ASSERT_EQ(ops_of(*graph), Ops{"add"});
  auto folded = static_cast<ValueId>(graph->node(0).args[1].payload);
  EXPECT_EQ(graph->constant(folded).to_vector<float>(), (std::vector<float>{49, 100}));
  EXPECT_NO_THROW(parse_graph(to_text(*graph))) << to_text(*graph);
}

TEST(Fold, RunsNodesOverNothing) {
  EXPECT_EQ(after_fold(R"(input %x: f32[2]
    %z: f32[2] = aten.zeros.default([2])
    %y: f32[2] = aten.add.Tensor(%x, %z)
    output %y)"),
            Ops{"add"});
}

TEST(Fold, LeavesLargeTensorsSymbolsRandomNumbersAndOutputs) {
  EXPECT_EQ(after_fold(R"(symbol s0 in [2, inf] hint 4 from size(%x, 0)
    input %x: f32[s0]
    constant %c: f32[2] = [1.0, 2.0]
    %a: f32[100] = aten.zeros.default([100])
    %b: f32[s0] = aten.zeros.default([s0])
    %r: f32[2] = aten.rand_like.default(%c)
    %d: f32[2] = aten.relu.default(%c)
    output %a, %b, %r, %d)"),
            (Ops{"zeros", "zeros", "rand_like", "relu"}));
}

TEST(Fold, LeavesMemoryThatIsWritten) {
  EXPECT_EQ(after_fold(R"(input %x: f32[2]
    %z: f32[2] alias 1 = aten.zeros.default([2])
    %w: f32[2] alias 1 = aten.add_.Tensor(%z, %x)
    %y: f32[2] = aten.mul.Tensor(%z, %x)
    output %y)"),
            (Ops{"zeros", "add_", "mul"}));
}

TEST(Fold, LeavesViewsOfConstantsThatAreOutputs) {
  EXPECT_EQ(after_fold(R"(constant %c: f32[2, 2] alias 1 = [1.0, 2.0, 3.0, 4.0]
    %t: f32[2, 2] strides [1, 2] alias 1 = aten.transpose.int(%c, 0, 1)
    output %t)"),
            Ops{"transpose"});
}

// ---- canonical order

TEST(Canonicalize, OrdersOperandsOfCommutativeOps) {
  auto graph = graph_of(R"(input %x: f32[2]
    input %y: f32[2]
    %a: f32[2] = aten.mul.Tensor(%y, %x)
    %b: f32[2] = aten.add.Tensor(%y, %x)
    %c: f32[2] = aten.add.Tensor(%y, %x, alpha=2)
    output %a, %b, %c)");
  EXPECT_TRUE(canonicalize(*graph));
  EXPECT_EQ(node_text(*graph, 0), "%a: f32[2] = aten.mul.Tensor(%x, %y)");
  EXPECT_EQ(node_text(*graph, 1), "%b: f32[2] = aten.add.Tensor(%x, %y)");
  EXPECT_EQ(node_text(*graph, 2), "%c: f32[2] = aten.add.Tensor(%y, %x, alpha=2)");
}

TEST(Canonicalize, KeepsTheOrderWhereLayoutsDiffer) {
  auto graph = graph_of(R"(input %x: f32[2, 2] strides [1, 2]
    input %y: f32[2, 2]
    %a: f32[2, 2] = aten.mul.Tensor(%y, %x)
    output %a)");
  EXPECT_FALSE(canonicalize(*graph));
}

TEST(Canonicalize, RemovesViewsAndCopiesThatChangeNothing) {
  EXPECT_EQ(after_canonical(R"(input %x: f32[2, 2] alias 1
    %a: f32[2, 2] alias 1 = aten.alias.default(%x)
    %b: f32[2, 2] alias 1 = aten.transpose.int(%a, 1, 1)
    %c: f32[2, 2] = aten.clone.default(%b)
    %d: f32[2, 2] = aten.relu.default(%c)
    output %d)"),
            Ops{"relu"});
}

TEST(Canonicalize, KeepsViewsAndCopiesThatSomebodyCanTell) {
  EXPECT_EQ(after_canonical(R"(input %x: f32[2] alias 1
    %a: f32[2] alias 1 = aten.alias.default(%x)
    %b: f32[2] = aten.clone.default(%x)
    output %a, %b)"),
            (Ops{"alias", "clone"}));
  EXPECT_EQ(after_canonical(R"(input %x: f32[2] alias 1
    %b: f32[2] = aten.clone.default(%x)
    %w: f32[2] alias 1 = aten.relu_.default(%x)
    %c: f32[2] = aten.mul.Tensor(%b, %w)
    output %c)"),
            (Ops{"clone", "relu_", "mul"}));
  EXPECT_EQ(after_canonical(R"(input %x: f32[2, 2]
    %b: f32[2, 2] alias 1 = aten.clone.default(%x)
    %t: f32[2, 2] strides [1, 2] alias 1 = aten.transpose.int(%b, 0, 1)
    output %t)"),
            (Ops{"clone", "transpose"}));
}

// ---- aliases

TEST(AliasClasses, FollowViewsInPlaceResultsAndGroups) {
  auto graph = graph_of(R"(input %x: f32[2, 2]
    input %g: f32[2] alias 7
    input %h: f32[2] alias 7
    %t: f32[2, 2] strides [1, 2] = aten.transpose.int(%x, 0, 1)
    %w: f32[2, 2] strides [1, 2] = aten.relu_.default(%t)
    %y: f32[2, 2] strides [1, 2] = aten.relu.default(%w)
    output %y)");
  AliasClasses classes(*graph);
  EXPECT_EQ(classes.of(0), classes.of(3));
  EXPECT_EQ(classes.of(0), classes.of(4));
  EXPECT_EQ(classes.of(1), classes.of(2));
  EXPECT_NE(classes.of(0), classes.of(1));
  EXPECT_NE(classes.of(4), classes.of(5));
  EXPECT_TRUE(classes.is_written(0));
  EXPECT_FALSE(classes.is_written(1));
  EXPECT_TRUE(classes.escapes(5));
  EXPECT_TRUE(classes.is_external(4));
}

}  // namespace
}  // namespace tenon
