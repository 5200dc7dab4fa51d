// The verifier: what is wrong with a graph is found and named.
#include "graph/verify.h"
#include "core/sym/shape_env.h"

#include <gtest/gtest.h>

#include "core/tensor/tensor_impl.h"
#include "graph/record.h"
#include "graph/text/parse.h"
#include "ops/op_table.h"
#include "unit/graph/test_ops.h"

namespace tenon {
namespace {

std::shared_ptr<Graph> unchecked_graph(const std::string& body) {
  ParseOptions options;
  options.check_metadata = false;
  return parse_graph("tng 1\ngraph {\n" + body + "\n}\n", options);
}

std::shared_ptr<Graph> sample() {
  return unchecked_graph(R"(
    symbol s0 in [2, inf] hint 4 from size(%x, 0)
    input %x: f32[s0, 2]
    constant %c: f32[2] = [1.0, 2.0]
    %y: f32[s0, 2] = aten.add.Tensor(%x, %c)
    %t: f32[2, s0] strides [1, 2] alias 1 = aten.transpose.int(%y, 0, 1)
    output %t)");
}

GraphValue described(Dtype dtype, std::vector<int64_t> sizes) {
  GraphValue value;
  value.meta = contiguous_meta(IntList(sizes), dtype);
  return value;
}

void expect_problem(const Graph& graph, const std::string& expected) {
  std::vector<std::string> problems = problems_of(graph);
  ASSERT_FALSE(problems.empty()) << expected;
  EXPECT_NE(problems[0].find(expected), std::string::npos) << problems[0];
  EXPECT_THROW(verify(graph), InternalError);
}

TEST(Verify, AcceptsAGoodGraph) {
  EXPECT_TRUE(problems_of(*sample()).empty());
  EXPECT_NO_THROW(verify_meta(*sample()));
}

TEST(Verify, ReadsAListOfScalarsAsReals) {
  auto graph = unchecked_graph(R"(
    input %x: f64[3, 3]
    %a: f64[3, 3], %b: f64[3, 3] = aten.gradient.scalarrayint(%x, spacing=[2, 0.5])
    output %a, %b)");
  EXPECT_EQ(graph->node(0).args[1].tag, Tag::floats);
  EXPECT_NO_THROW(verify_meta(*graph));
}

TEST(Verify, FindsAUseBeforeTheDefinition) {
  auto graph = sample();
  std::vector<Value> args(graph->node(0).args.begin(), graph->node(0).args.end());
  args[1] = Value::ref(graph->node(1).first_result);
  graph->set_args(0, args);
  expect_problem(*graph, "node 0 (aten.add.Tensor) reads %t before it is computed");
}

TEST(Verify, FindsAValueThatDoesNotExist) {
  auto graph = sample();
  std::vector<Value> args(graph->node(1).args.begin(), graph->node(1).args.end());
  args[0] = Value::ref(99);
  graph->set_args(1, args);
  expect_problem(*graph, "reads value 99");
}

TEST(Verify, FindsArgumentsThatDoNotFitTheSchema) {
  auto graph = sample();
  std::vector<Value> args(graph->node(1).args.begin(), graph->node(1).args.end());
  args[1] = Value::of(0.5);
  graph->set_args(1, args);
  expect_problem(*graph, "argument dim0 does not fit its type int");
  args.pop_back();
  graph->set_args(1, args);
  expect_problem(*graph, "has 2 arguments, its schema has 3");
}

TEST(Verify, FindsAWrongNumberOfResults) {
  Graph graph;
  ValueId x = graph.add_input(described(Dtype::f32, {2}));
  Value args[] = {Value::ref(x)};
  graph.add_node(op_id("aten.relu.default"), args,
                 {described(Dtype::f32, {2}), described(Dtype::f32, {2})});
  expect_problem(graph, "has 2 results, its schema has 1");
}

TEST(Verify, FindsAnOutputThatDoesNotExist) {
  auto graph = sample();
  graph->set_outputs({77});
  expect_problem(*graph, "the graph returns value 77");
}

TEST(Verify, FindsUnboundAndForeignSymbols) {
  auto graph = sample();
  graph->symbols.clear();
  expect_problem(*graph, "%x uses symbol s0 before anything binds it");
  auto other = sample();
  other->symbols[0].symbol = intern_symbol(4000000, ExprKind::integer);
  expect_problem(*other, "a binding names a symbol");
}

TEST(Verify, FindsBindingsThatReadNothing) {
  auto graph = sample();
  graph->symbols[0].dim = 5;
  expect_problem(*graph, "symbol s0 is bound to dimension 5 of %x");
  graph->symbols[0].dim = 0;
  graph->symbols.push_back(graph->symbols[0]);
  expect_problem(*graph, "symbol s0 is bound twice");
}

TEST(Verify, FindsARunTimeSymbolThatIsUsedTooEarly) {
  auto graph = unchecked_graph(R"(
    symbol u0 size_like in [0, inf] from size(%n, 0)
    input %x: f32[4]
    %n: i64[u0, 1] = aten.nonzero.default(%x)
    %z: f32[u0] = aten.zeros.default([u0])
    output %z)");
  EXPECT_TRUE(problems_of(*graph).empty());
  std::vector<Value> args(graph->node(1).args.begin(), graph->node(1).args.end());
  Graph early;
  early.shape_env = graph->shape_env;
  early.add_node(graph->node(1).op, args, {graph->value(graph->node(1).first_result)});
  early.set_outputs({0});
  expect_problem(early, "uses symbol u0 before anything binds it");
}

TEST(Verify, FindsIdsThatDisagree) {
  auto graph = sample();
  graph->value(2).source_index = 1;
  expect_problem(*graph, "the node differs");
}

TEST(Verify, FindsAConstantThatIsNotAsDescribed) {
  auto graph = sample();
  graph->replace_constant(graph->constants()[0], make_tensor({3}, Dtype::f32));
  expect_problem(*graph, "constant %c is described as");
}

TEST(Verify, FindsAnAliasGroupOnTwoDevices) {
  auto graph = sample();
  graph->value(0).alias_group = 1;
  graph->value(0).meta.device = Device(DeviceType::cuda, 0);
  expect_problem(*graph, "in one alias group on two devices");
}

TEST(Verify, LooksIntoSubGraphs) {
  auto graph = unchecked_graph(R"(
    graph @then {
      input %a: f32[2]
      output %a
    }
    input %p: bool[]
    input %x: f32[2]
    %y: f32[2] = graph_test.choose.default(%p, @then, @then, [%x])
    output %y)");
  EXPECT_TRUE(problems_of(*graph).empty());
  graph->subgraphs[0]->set_outputs({9});
  expect_problem(*graph, "in a sub-graph: the graph returns value 9");
  graph->subgraphs.clear();
  expect_problem(*graph, "is not kept by the graph");
}

TEST(VerifyMeta, FindsWrongDtypeShapeStridesAndOffset) {
  const std::pair<std::string, std::string> cases[] = {
      {"%y: f64[4, 2] = aten.relu.default(%x)", "dtype is f32"},
      {"%y: f32[2, 4] = aten.relu.default(%x)", "shape is [4, 2]"},
      {"%y: f32[2, 4] alias 1 = aten.transpose.int(%x, 0, 1)", "strides are [1, 2]"},
      {"%y: f32[2, 4] strides [1, 2] offset 3 = aten.transpose.int(%x, 0, 1)", "offset is 0"},
      {"%y: f32[4] = aten.relu.default(%x)", "shape is [4, 2]"},
      {"%y: f32[3, 2] = aten.split.Tensor(%x, 2)", "it gives 2 parts, the graph says 1"},
  };
  for (const auto& [node, expected] : cases) {
    auto graph = unchecked_graph("input %x: f32[4, 2]\n" + node + "\noutput %y");
    std::vector<std::string> problems = meta_problems_of(*graph);
    ASSERT_EQ(problems.size(), 1u) << node;
    EXPECT_NE(problems[0].find(expected), std::string::npos) << problems[0];
    EXPECT_THROW(verify_meta(*graph), InternalError);
  }
}

void expect_refusal(const std::string& text, const std::string& expected) {
  try {
    parse_graph("tng 1\ngraph {\n" + text + "}\n");
    ADD_FAILURE() << text;
  } catch (const UserError& error) {
    EXPECT_EQ(error.code(), ErrorCode::bad_file);
    EXPECT_NE(std::string(error.what()).find(expected), std::string::npos) << error.what();
  }
}

TEST(AdmitGraph, RefusesWhatContradictsItself) {
  const std::pair<std::string, std::string> cases[] = {
      {"%y: f32[2] alias 1, %z: f32[2] alias 1 = aten.unbind.int(%x, 0)",
       "node 0 (aten.unbind.int): it gives 4 parts, the graph says 2"},
      {"%y: f64[4, 2] = aten.relu.default(%x)", "dtype is f32"},
      {"%y: f32[4] = aten.relu.default(%x)", "shape is [4, 2]"},
      {"%y: f32[4, 3] = aten.relu.default(%x)", "shape is [4, 2]"},
      {"%y: f32[4, 2] = aten.mm.default(%x, %x)", "inner sizes differ"},
  };
  for (const auto& [node, expected] : cases)
    expect_refusal("input %x: f32[4, 2]\n" + node + "\noutput %y\n", expected);
}

TEST(AdmitGraph, MakesNoManyPartsThatTheGraphDoesNotName) {
  for (const char* call : {"unbind.int(%x, 0)", "split.Tensor(%x, 1)", "chunk.default(%x, 1000000)",
                           "tensor_split.sections(%x, 1000000)", "unbind_copy.int(%x, 0)"}) {
    try {
      parse_graph(
          "tng 1\ngraph {\ninput %x: f32[1000000]\n%y: f32[] alias 1, %z: f32[] alias 1 = "
          "aten." +
          std::string(call) + "\noutput %y\n}\n");
      ADD_FAILURE() << call;
    } catch (const UserError& error) {
      EXPECT_NE(std::string(error.what()).find("at most 4096 parts"), std::string::npos)
          << call << ": " << error.what();
    }
  }
}

TEST(AdmitGraph, PutsStridesRightAndLeavesNoGuards) {
  auto graph = parse_graph(R"(tng 1
    graph {
      symbol s0 in [0, inf] hint 4 from size(%x, 0)
      symbol u0 size_like in [0, inf] from size(%n, 0)
      input %x: f32[s0, 2]
      input %w: f32[s0, 2]
      %y: f32[s0, 2] strides [1, s0] = aten.add.Tensor(%x, %w)
      %t: f32[2, s0] alias 1 = aten.t.default(%y)
      %n: i64[u0, 2] strides [0, 1] = aten.nonzero.default(%y)
      output %t, %n
    })");
  EXPECT_TRUE(graph->shape_env->guards().empty());
  auto strides_of = [&](size_t node) {
    return to_text(list_of(graph->value(graph->node(node).first_result).meta.strides));
  };
  EXPECT_EQ(strides_of(0), "[2, 1]");
  EXPECT_EQ(strides_of(1), "[1, 2]");
  EXPECT_EQ(strides_of(2), "[1, u0]");
}

TEST(AdmitGraph, RefusesResultsInMemoryThatTheyCannotHave) {
  expect_refusal(R"(input %x: f32[4, 4] alias 1
                    %s: f32[4, 4] alias 1 = aten.add.Tensor(%x, %x)
                    output %s
                 )",
                 "result 0 has memory of its own, the graph says alias 1");
  // What may be its argument, or a copy.
  EXPECT_NO_THROW(parse_graph(R"(tng 1
    graph {
      input %x: f32[4] alias 1
      %y: f64[4] alias 1 = aten.to.dtype(%x, f64)
      output %y
    })"));
}

TEST(AdmitGraph, HoldsWhatItPutRightAgainstTheRest) {
  expect_refusal(R"(symbol u0 size_like in [7, 7] from size(%a, 0)
                    input %x: i64[6]
                    %a: i64[u0, 1024] = aten.bincount.default(%x)
                    %b: i64[20, 30] alias 1 = aten.view.default(%a, [20, 30])
                    output %b
                 )",
                 "shape [20, 30] has 600 elements, the tensor has 7");
  expect_refusal(R"(symbol u0 size_like in [0, inf] from size(%a, 0)
                    input %x: i64[6] on meta
                    %a: i64[u0] = aten.bincount.default(%x)
                    output %a
                 )",
                 "device is meta");
}

TEST(AdmitGraph, FollowsWhatAnOpGivesOtherSizesInPlace) {
  EXPECT_NO_THROW(parse_graph(R"(tng 1
    graph {
      input %x: f32[2, 3] alias 1
      input %w: f32[2, 4]
      %t: f32[3, 2] strides [1, 3] alias 1 = aten.t_.default(%x)
      %y: f32[3, 4] = aten.mm.default(%x, %w)
      output %y
    })"));
}

TEST(VerifyMeta, AcceptsRunTimeSizesAndSymbolicStrides) {
  auto graph = unchecked_graph(R"(
    symbol s0 in [2, inf] hint 4 from size(%x, 0)
    symbol s1 in [2, inf] hint 6 from size(%x, 1)
    symbol u0 size_like in [0, inf] from size(%n, 0)
    input %x: f32[s0, s1]
    %t: f32[s1, s0] strides [1, s1] alias 1 = aten.transpose.int(%x, 0, 1)
    %c: f32[2*s1, s0] = aten.cat.default([%t, %t])
    %n: i64[u0, 2] = aten.nonzero.default(%c)
    output %n)");
  EXPECT_EQ(meta_problems_of(*graph), std::vector<std::string>{});
}

}  // namespace
}  // namespace tenon
