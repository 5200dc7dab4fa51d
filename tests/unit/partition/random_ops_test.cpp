// Random ops, effects and collectives run once: never again in the backward.
#include "unit/partition/small_graph.h"
#include "unit/partition/tests_of_partition.h"

#include "partition/op_classes.h"

#include <tenon/config.h>

#include <gmock/gmock.h>

namespace tenon::partition::tests {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::Not;

Names random_ops_in(const RecordedGraph& recorded, const std::vector<JointId>& calls) {
  Names names;
  for (JointId id : calls)
    if (classes_of(recorded.graph.nodes[id].target) & class_seeded)
      names.push_back(recorded.name_of(id));
  return names;
}

TEST(RandomOps, AreNotRecomputedUnderAnyBudget) {
  RecordedGraph dropout = own_graph("dropout_block");
  for (double budget : {0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0}) {
    Partition cut = min_cut_partition(dropout.graph, {.memory_budget = budget});
    EXPECT_THAT(random_ops_in(dropout, cut.backward), ElementsAre()) << budget;
    EXPECT_THAT(random_ops_in(dropout, cut.forward), ElementsAre("native_dropout")) << budget;
    // The mask is what the backward cannot do without.
    EXPECT_THAT(dropout.names(cut.saved), Contains("getitem_1")) << budget;
  }
  // At 0 the values are saved that cannot be computed again, and the rest comes from the inputs.
  Partition least = min_cut_partition(dropout.graph, {.memory_budget = 0});
  EXPECT_THAT(dropout.names(least.saved),
              ElementsAre("primals_1", "primals_2", "getitem", "getitem_1"));
  EXPECT_THAT(dropout.names(least.recomputed), ElementsAre("relu", "sigmoid"));
}

TEST(RandomOps, ThatAreDeadInTheBackwardOfTheDefaultPartitionAreDropped) {
  RecordedGraph dropout = own_graph("dropout_block");
  Partition cut = default_partition(dropout.graph, {});
  EXPECT_EQ(cut.backward.size(), 12u);
  EXPECT_EQ(cut.forward.size(), 9u);
  EXPECT_TRUE(cut.recomputed.empty());
  EXPECT_EQ(activation_bytes(dropout.graph, cut), 36864);
}

// x -> sin(dropout(x)), all of it in a checkpointed region.
SmallGraph checkpointed_dropout() {
  SmallGraph graph;
  graph.primal("x").tangent("g").tuple("dropout", "aten.native_dropout.default", {"x"});
  graph.item("values", "dropout", 0).item("mask", "dropout", 1, 256);
  graph.call("sin", "aten.sin.default", {"values"});
  graph.call("cos", "aten.cos.default", {"values"});
  graph.call("mul", "aten.mul.Tensor", {"g", "cos"});
  graph.call("grad", "aten.native_dropout_backward.default", {"mul", "mask"});
  graph.outputs({"sin"}, {"grad"});
  for (std::string name : {"dropout", "values", "mask", "sin"}) {
    graph.node(name).recompute = JointNode::Recompute::must_recompute;
    graph.node(name).region = 0;
  }
  return graph;
}

TEST(RandomOps, InACheckpointedRegionSaveTheirResults) {
  SmallGraph graph = checkpointed_dropout();
  for (double budget : {0.0, 0.5, 1.0}) {
    Partition cut = graph.cut({.memory_budget = budget});
    EXPECT_THAT(graph.names(cut.backward), Not(Contains("dropout"))) << budget;
    EXPECT_THAT(graph.names(cut.saved), Contains("mask")) << budget;
  }
  Partition cut = default_partition(graph.graph(), {});
  EXPECT_THAT(graph.names(cut.backward), ElementsAre("mul", "grad"));
}

TEST(RandomOps, ThatArePointwiseAreBannedToo) {
  SmallGraph graph;
  graph.primal("x").tangent("g").call("noise", "aten.rrelu.default", {"x"});
  graph.call("sin", "aten.sin.default", {"noise"});
  graph.call("cos", "aten.cos.default", {"noise"}).call("grad", "aten.mul.Tensor", {"g", "cos"});
  graph.outputs({"sin"}, {"grad"});
  for (bool aggressive : {false, true})
    EXPECT_THAT(graph.names(graph.cut({.aggressive_recomputation = aggressive}).backward),
                Not(Contains("noise")));
}

TEST(RandomOps, ThatOnlyTheBackwardReadsDoNotRunInBothHalves) {
  // One result is worth saving, the other one looks cheap to compute again.
  SmallGraph graph;
  graph.primal("x").tangent("g").tuple("dropout", "aten.native_dropout.default", {"x"});
  graph.item("values", "dropout", 0, 1 << 20).item("mask", "dropout", 1, 64);
  graph.call("sin", "aten.sin.default", {"x"}).call("mul", "aten.mul.Tensor", {"g", "values"});
  graph.call("grad", "aten.mul.Tensor", {"mul", "mask"}).outputs({"sin"}, {"grad"});
  for (double budget : {0.0, 1.0}) {
    Partition cut = graph.cut({.memory_budget = budget});
    EXPECT_THAT(graph.names(cut.forward), Contains("dropout"));
    EXPECT_THAT(graph.names(cut.backward), Not(Contains("dropout")));
  }
  // Traced in the backward, it runs there.
  for (std::string name : {"dropout", "values", "mask"})
    graph.node(name).tag = JointNode::Tag::backward;
  for (double budget : {0.0, 1.0}) {
    Partition cut = graph.cut({.memory_budget = budget});
    EXPECT_THAT(graph.names(cut.forward), ElementsAre("sin"));
    EXPECT_THAT(graph.names(cut.backward), Contains("dropout"));
  }
}

TEST(Effects, OfTheForwardRunOnceAndTheirResultsAreSaved) {
  SmallGraph graph;
  graph.primal("x").tangent("g").call("print", "mine.print.default", {"x"});
  graph.call("sin", "aten.sin.default", {"print"}).call("cos", "aten.cos.default", {"print"});
  graph.call("grad", "aten.mul.Tensor", {"g", "cos"}).outputs({"sin"}, {"grad"});
  graph.node("print").effect = true;
  for (double budget : {0.0, 1.0}) {
    Partition cut = graph.cut({.memory_budget = budget});
    EXPECT_THAT(graph.names(cut.forward), Contains("print")) << budget;
    EXPECT_THAT(graph.names(cut.backward), Not(Contains("print"))) << budget;
  }
}

TEST(SizesOfTheData, AreFoundOutOnce) {
  SmallGraph graph;
  graph.primal("x").primal("mask", 64).tangent("g");
  graph.call("index", "aten.index.Tensor", {"x", "mask"}, 1 << 20);
  graph.call("sin", "aten.sin.default", {"index"}).call("cos", "aten.cos.default", {"index"});
  graph.call("grad", "aten.mul.Tensor", {"g", "cos"}).outputs({"sin"}, {"grad", "-"});
  EXPECT_THAT(graph.names(graph.cut({.memory_budget = 0}).backward), Contains("index"));
  graph.node("index").binds_symbol = true;
  for (bool aggressive : {false, true})
    for (double budget : {0.0, 1.0}) {
      Partition cut = graph.cut({.aggressive_recomputation = aggressive, .memory_budget = budget});
      EXPECT_THAT(graph.names(cut.forward), Contains("index"));
      EXPECT_THAT(graph.names(cut.backward), Not(Contains("index")));
    }
}

TEST(Effects, RunEvenWhereNobodyReadsThemInTheHalfTheyWereTracedIn) {
  SmallGraph graph;
  graph.primal("x").tangent("g").call("log", "mine.log.default", {"x"});
  graph.call("sin", "aten.sin.default", {"x"}).call("cos", "aten.cos.default", {"x"});
  graph.call("grad", "aten.mul.Tensor", {"g", "cos"});
  graph.call("log_grad", "mine.log.default", {"g"});
  graph.call("early", "mine.log.default", {"x"});
  graph.node("early").tag = graph.node("cos").tag = JointNode::Tag::backward;
  graph.outputs({"sin"}, {"grad"});
  for (std::string name : {"log", "log_grad", "early"}) graph.node(name).effect = true;
  for (const Partition& cut : {graph.cut(), default_partition(graph.graph(), {})}) {
    EXPECT_THAT(graph.names(cut.forward), ElementsAre("log", "sin"));
    EXPECT_THAT(graph.names(cut.backward),
                ::testing::UnorderedElementsAre("cos", "grad", "log_grad", "early"));
  }
}

TEST(Collectives, AreSavedUnlessTheFlagOrATagAllowsMore) {
  SmallGraph graph;
  graph.primal("x").tangent("g");
  graph.call("reduced", "_c10d_functional.all_reduce.default", {"x"});
  graph.call("sin", "aten.sin.default", {"reduced"}).call("cos", "aten.cos.default", {"reduced"});
  graph.call("grad", "aten.mul.Tensor", {"g", "cos"}).outputs({"sin"}, {"grad"});
  auto saved = [&](bool is_allowed) {
    auto scope = config::patch({{"functorch.unsafe_allow_optimization_of_collectives", is_allowed},
                                {"functorch.activation_memory_budget", 0.0}});
    return graph.saved(PartitionOptions::from_flags());
  };
  EXPECT_THAT(saved(false), ElementsAre("reduced"));
  EXPECT_THAT(saved(true), ElementsAre("x"));
}

}  // namespace
}  // namespace tenon::partition::tests
