// Cases of the partitioner that no recording has: errors, symbols, writes, regions, outputs.
#include "unit/message_of.h"
#include "unit/partition/small_graph.h"

#include <tenon/config.h>

#include <gmock/gmock.h>

#include <fstream>
#include <sstream>

namespace tenon::partition::tests {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Not;
using Recompute = JointNode::Recompute;
using Tag = JointNode::Tag;
using Type = JointNode::Type;

// sin(x * w), with cos for its gradient.
SmallGraph sine() {
  SmallGraph graph;
  graph.primal("x").primal("w").tangent("g").call("mul", "aten.mul.Tensor", {"x", "w"});
  graph.call("sin", "aten.sin.default", {"mul"}).call("cos", "aten.cos.default", {"mul"});
  graph.call("grad", "aten.mul.Tensor", {"g", "cos"}).outputs({"sin"}, {"grad", "-"});
  return graph;
}

TEST(Partition, ABudgetOutsideOfItsRangeIsNamed) {
  for (double budget : {1.5, -0.1})
    EXPECT_EQ(message_of<UserError>([&] { sine().cut({.memory_budget = budget}); }),
              message("activation_memory_budget: the valid ranges for memory budget are 0 <= m <= "
                      "1. The provided value is {}",
                      budget));
}

TEST(Partition, AnUnknownEstimatorIsNamedWithTheKnownOnes) {
  EXPECT_EQ(
      message_of<UserError>([] { sine().cut({.runtime_estimator = "foo"}); }),
      "activation_memory_budget_runtime_estimator: Not aware of runtime estimator: foo; known "
      "are flops, profile, testing");
  EXPECT_EQ(
      message_of<UserError>(
          [] { sine().cut({.memory_budget = 0.5, .runtime_estimator = "profile"}); }),
      "activation_memory_budget_runtime_estimator: 'profile' needs a way to run single calls, "
      "which this compilation does not have; use 'flops'");
}

TEST(Partition, APathThatCannotBeCutIsToldWithItsReasons) {
  // A tuple cannot be saved, and this one is read as a whole.
  SmallGraph graph;
  graph.primal("x").tangent("g").tuple("topk", "aten.topk.default", {"x"});
  graph.call("loss", "mine.loss.default", {"topk"});
  graph.call("grad", "mine.loss_backward.default", {"g", "topk"}).outputs({"loss"}, {"grad"});
  EXPECT_THAT(
      message_of<InternalError>([&] { graph.cut(); }),
      testing::HasSubstr(
          "partition: the graph 'small' has no finite cut between forward and backward. The "
          "path that cannot be cut:\n"
          "  topk (aten.topk.default): cannot be recomputed: not in recomputable "
          "allowlist; cannot be saved\n"
          "  grad (mine.loss_backward.default): needed in backward"));
}

TEST(Partition, AGraphThatCannotBeCutIsWrittenWhereDumpsAreWanted) {
  auto patch = config::patch({{"dynamo.debug_dir_root", testing::TempDir() + "/tenon_uncut"}});
  SmallGraph graph;
  graph.primal("x").tangent("g").tuple("topk", "aten.topk.default", {"x"});
  graph.call("loss", "mine.loss.default", {"topk"});
  graph.call("grad", "mine.loss_backward.default", {"g", "topk"}).outputs({"loss"}, {"grad"});
  std::string text = message_of<InternalError>([&] { graph.cut(); });
  std::string name = "min_cut_failed_graph_small.txt";
  size_t begin = text.find("The graph is in "), end = text.find(name);
  ASSERT_NE(end, text.npos) << text;
  begin += std::string("The graph is in ").size();
  std::ifstream file(text.substr(begin, end - begin) + name);
  std::stringstream written;
  written << file.rdbuf();
  EXPECT_THAT(
      written.str(),
      testing::HasSubstr("%4 grad = mine.loss_backward.default(g, topk, ) 1024 bytes, backward"));
}

TEST(Partition, AResultThatItsHalfCannotComputeIsToldByName) {
  SmallGraph graph = sine();
  graph.node("sin").tag = Tag::must_be_in_backward;
  EXPECT_THAT(message_of<InternalError>([&] { graph.cut(); }),
              testing::HasSubstr("partition: 'sin' is a result of one half, but cannot be computed "
                                 "there; its tags contradict its arguments"));
}

TEST(Partition, OfAGraphWithoutABackwardHasNoBackward) {
  SmallGraph graph;
  graph.primal("x").call("sin", "aten.sin.default", {"x"}).outputs({"sin"}, {"-"});
  Partition cut = graph.cut();
  EXPECT_EQ(cut.n_cuts, 0u);
  EXPECT_THAT(cut.saved, IsEmpty());
  EXPECT_THAT(cut.backward, IsEmpty());
  EXPECT_THAT(graph.names(cut.forward), ElementsAre("sin"));
}

TEST(Partition, AGradientThatNoTangentReachesIsComputedInTheBackward) {
  SmallGraph graph;
  graph.primal("x")
      .call("sum", "aten.sum.default", {"x"}, 4)
      .call("ones", "aten.ones_like.default", {"x"});
  graph.outputs({"sum"}, {"ones"});
  Partition cut = graph.cut();
  EXPECT_THAT(graph.names(cut.gradients), ElementsAre("ones"));
  EXPECT_THAT(graph.names(cut.saved).size() + cut.backward.size(), 1u);
}

TEST(Partition, EqualCallsAreMergedOntoTheFirst) {
  SmallGraph graph = sine();
  graph.call("mul_again", "aten.mul.Tensor", {"x", "w"});
  graph.call("other", "aten.mul.Tensor", {"w", "x"}).call("neg", "aten.neg.default", {"mul_again"});
  graph.call("grad_w", "aten.mul.Tensor", {"grad", "neg"});
  graph.call("keep", "aten.mul.Tensor", {"grad", "other"});
  JointGraph whole = graph.graph();
  whole.outputs = {graph.id("sin"), graph.id("keep"), graph.id("grad_w")};
  Partition cut = min_cut_partition(whole, {});
  EXPECT_EQ(cut.stands_for[graph.id("mul_again")], graph.id("mul"));
  EXPECT_EQ(cut.stands_for[graph.id("other")], graph.id("other")) << "other order";
  EXPECT_EQ(min_cut_partition(whole, {.cse = false}).stands_for[graph.id("mul_again")],
            graph.id("mul_again"));
}

TEST(Partition, CallsThatDifferInAPlainArgumentOrAreOutputsAreNotMerged) {
  SmallGraph graph;
  graph.primal("x").tangent("g");
  graph.call("one", "aten.add.Scalar", {"x"}).call("one_float", "aten.add.Scalar", {"x"});
  graph.call("out_a", "aten.sin.default", {"x"}).call("out_b", "aten.sin.default", {"x"});
  graph.call("empty_a", "aten.empty.memory_format", {})
      .call("empty_b", "aten.empty.memory_format", {});
  graph.call("cat", "aten.cat.default", {"one", "one_float", "empty_a", "empty_b"});
  graph.call("grad", "aten.mul.Tensor", {"g", "cat"});
  graph.node("one").arguments += "1";
  graph.node("one_float").arguments += "1.0";
  graph.outputs({"out_a", "out_b"}, {"grad"});
  Partition cut = graph.cut();
  for (JointId id = 0; id < graph.graph().nodes.size(); ++id)
    EXPECT_EQ(cut.stands_for[id], id) << graph.graph().nodes[id].name;
}

TEST(Partition, ACallWithEffectsSeparatesEqualCalls) {
  SmallGraph graph;
  graph.primal("x").tangent("g").call("first", "aten.sin.default", {"x"});
  graph.call("write", "aten.copy_.default", {"x", "first"})
      .call("second", "aten.sin.default", {"x"});
  graph.call("loss", "aten.sum.default", {"second"});
  graph.call("cat", "aten.cat.default", {"first", "second"});
  graph.call("grad", "aten.mul.Tensor", {"g", "cat"}).outputs({"loss"}, {"grad"});
  graph.node("write").effect = true;
  graph.node("write").tag = Tag::must_be_in_forward;
  EXPECT_EQ(graph.cut().stands_for[graph.id("second")], graph.id("second"));
  graph.node("write").effect = false;
  EXPECT_EQ(graph.cut().stands_for[graph.id("second")], graph.id("first"));
}

TEST(Partition, NumbersAreSavedApartAndSymbolsGetTheirNames) {
  SmallGraph graph;
  graph.primal("n").primal("m").primal("x").tangent("g");
  for (std::string name : {"n", "m"}) {
    graph.node(name).type = Type::sym_int;
    graph.node(name).binds = "s_" + name;
    graph.node(name).symbols = {"s_" + name};
    graph.node(name).bytes = 1;
  }
  graph.node("x").symbols = {"s_n"};
  graph.node("g").symbols = {"s_n", "s_m"};
  graph.call("twice", "sym.mul", {"m"}, 1);
  graph.node("twice").type = Type::sym_int;
  graph.node("twice").symbols = {"s_m"};
  graph.call("mm", "aten.mm.default", {"x", "twice"});
  graph.call("grad", "aten.mm.default", {"g", "mm", "twice"});
  graph.outputs({"mm"}, {"-", "-", "grad"});
  Partition cut = default_partition(graph.graph(), {});
  EXPECT_THAT(graph.names(cut.saved), ElementsAre("mm"));
  EXPECT_THAT(graph.names(cut.saved_symbols), ElementsAre("m", "n", "twice"))
      << "bindings in the order of need, then others";
}

TEST(Partition, OfATensorWhoseSizeAloneIsReadTheSizeIsSaved) {
  SmallGraph graph;
  graph.primal("x").tangent("g").call("sin", "aten.sin.default", {"x"});
  graph.call("loss", "aten.sum.default", {"sin"}, 4).call("size", "aten.sym_size.int", {"sin"}, 1);
  graph.node("size").type = Type::sym_int;
  graph.node("size").tag = Tag::backward;
  graph.call("grad", "aten.expand.default", {"g", "size"}).outputs({"loss"}, {"grad"});
  Partition cut = default_partition(graph.graph(), {});
  EXPECT_THAT(cut.saved, IsEmpty());
  EXPECT_THAT(graph.names(cut.saved_symbols), ElementsAre("size"));
  EXPECT_THAT(graph.names(cut.forward), ElementsAre("sin", "loss", "size"));
}

TEST(Partition, AWriteInTheBackwardStandsForItsTargetInTheForward) {
  SmallGraph graph = sine();
  graph.call("write", "aten.copy_.default", {"w", "grad"});
  graph.node("write").effect = true;
  graph.node("write").tag = Tag::must_be_in_backward;
  JointGraph whole = graph.graph();
  whole.outputs.insert(whole.outputs.begin() + 1, graph.id("write"));
  whole.n_forward_outputs = 2;
  Partition cut = min_cut_partition(whole, {});
  EXPECT_THAT(graph.names(cut.forward_outputs), ElementsAre("sin", "w"));
  EXPECT_THAT(graph.names(cut.backward), Contains("write"));
  EXPECT_THAT(graph.names(cut.forward), Not(Contains("write")));
}

TEST(Partition, ResultsOfTuplesAreReadRightBehindThem) {
  SmallGraph graph;
  graph.primal("x").tangent("g").tuple("max", "aten.max.dim", {"x"});
  graph.call("sin", "aten.sin.default", {"x"}).item("values", "max", 0).item("indices", "max", 1);
  graph.call("add", "aten.add.Tensor", {"sin", "values"});
  graph.call("grad", "aten.mul.Tensor", {"g", "indices"}).outputs({"add"}, {"grad"});
  EXPECT_THAT(graph.names(graph.cut().forward),
              ElementsAre("max", "values", "indices", "sin", "add"));
}

TEST(Partition, RecomputationRunsRightBeforeItsUse) {
  // Two gradients; what the second needs is not computed before the first.
  SmallGraph graph;
  graph.primal("x").primal("y").tangent("g").call("a", "aten.sin.default", {"x"});
  graph.call("b", "aten.sin.default", {"y"}).call("loss", "aten.add.Tensor", {"a", "b"});
  graph.call("cos_x", "aten.cos.default", {"x"}).call("cos_y", "aten.cos.default", {"y"});
  graph.call("grad_x", "aten.mul.Tensor", {"g", "cos_x"});
  graph.call("grad_y", "aten.mul.Tensor", {"g", "cos_y"});
  graph.outputs({"loss"}, {"grad_x", "grad_y"});
  EXPECT_THAT(graph.names(graph.cut().backward), ElementsAre("cos_x", "grad_x", "cos_y", "grad_y"));
}

TEST(Partition, WhatLeavesACheckpointedRegionForALaterOneIsSaved) {
  SmallGraph graph = sine();
  graph.node("mul").recompute = graph.node("sin").recompute = Recompute::must_recompute;
  graph.node("mul").region = graph.node("sin").region = 0;
  EXPECT_THAT(graph.names(graph.cut().recomputed), ElementsAre("mul"));
  graph.node("sin").region = 1;
  EXPECT_THAT(graph.saved(), ElementsAre("mul"));
  graph.node("sin").region = 0;
  graph.node("sin").recompute = Recompute::free;
  graph.node("mul").backward_hook = true;
  EXPECT_THAT(graph.cut().recomputed, IsEmpty()) << "a hook on what leaves the region";
}

// x -> sin(exp(x)), all of it computed again: nothing else of the backward reads x.
TEST(Partition, WhatACheckpointedRegionReadsIsSavedByTheDefaultPartition) {
  SmallGraph graph;
  graph.primal("x").tangent("g").call("exp", "aten.exp.default", {"x"});
  graph.call("sin", "aten.sin.default", {"exp"}).call("cos", "aten.cos.default", {"exp"});
  graph.call("grad", "aten.mul.Tensor", {"g", "cos"}).outputs({"sin"}, {"grad"});
  graph.node("cos").tag = Tag::backward;
  for (std::string name : {"exp", "sin"}) {
    graph.node(name).recompute = Recompute::must_recompute;
    graph.node(name).region = 0;
  }
  Partition cut = default_partition(graph.graph(), {});
  EXPECT_THAT(graph.names(cut.saved), ElementsAre("x"));
  EXPECT_THAT(graph.names(cut.backward), ElementsAre("exp", "cos", "grad"));
}

TEST(Partition, AWriteInBothHalvesSavesTheValueOfTheFirst) {
  SmallGraph graph = sine();
  graph.call("new_w", "aten.exp.default", {"w"});
  graph.node("new_w").tag = Tag::forward;
  graph.call("write", "aten.copy_.default", {"w", "new_w"});
  graph.call("write_again", "aten.copy_.default", {"w", "grad"});
  for (std::string name : {"write", "write_again"}) graph.node(name).effect = true;
  graph.node("write").tag = Tag::must_be_in_forward;
  graph.node("write_again").tag = Tag::must_be_in_backward;
  Partition cut = graph.cut();
  auto ban = std::find_if(cut.banned.begin(), cut.banned.end(),
                          [&](const Ban& b) { return b.node == graph.id("new_w"); });
  // Only what the forward itself needs can be banned; the write keeps it there.
  EXPECT_THAT(graph.names(cut.forward), Contains("new_w"));
  EXPECT_TRUE(ban == cut.banned.end() || ban->reason == BanReason::marked_must_save);
}

TEST(Partition, ABrokenGraphIsOurBugAndSaysSo) {
  JointGraph graph = sine().graph();
  graph.nodes[3].inputs[0] = 6;
  EXPECT_THAT(message_of<InternalError>([&] { min_cut_partition(graph, {}); }),
              testing::HasSubstr("'mul' reads a node that comes later"));
}

}  // namespace
}  // namespace tenon::partition::tests
