// Properties of partitions of random joint graphs.
#include "unit/partition/small_graph.h"

#include "partition/op_classes.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

namespace tenon::partition::tests {
namespace {

using Kind = JointNode::Kind;

struct Shape {
  int n_forward = 6, n_backward = 5;
  bool special_ops = false;  // tuples, random ops, effects
};

class Generator {
 public:
  Generator(uint32_t seed, Shape shape) : random_(seed), shape_(shape) {}

  SmallGraph make() {
    graph_.parameter("w", size()).primal("x", size()).tangent("g", size());
    forward_ = {"w", "x"};
    backward_ = {"g"};
    for (int i = 0; i < shape_.n_forward; ++i) add_forward("f" + std::to_string(i));
    std::string loss = forward_.back();
    for (int i = 0; i < shape_.n_backward; ++i) add_backward("b" + std::to_string(i));
    graph_.outputs({loss}, {backward_.back(), any(backward_)});
    return std::move(graph_);
  }

 private:
  int64_t size() { return 64 << random_() % 8; }
  uint32_t below(uint32_t n) { return static_cast<uint32_t>(random_() % n); }
  const std::string& any(const Names& names) {
    return names[below(static_cast<uint32_t>(names.size()))];
  }
  std::string any_target() {
    static const Names targets{"aten.sin.default", "aten.mul.Tensor",      "aten.mm.default",
                               "aten.sum.default", "aten.permute.default", "aten.cat.default",
                               "aten.exp.default", "aten.cumsum.default"};
    return any(targets);
  }

  void add_forward(const std::string& name) {
    if (shape_.special_ops && below(5) == 0) {
      graph_.tuple(name, below(2) ? "aten.native_dropout.default" : "aten.topk.default",
                   {any(forward_)});
      graph_.item(name + "_0", name, 0, size()).item(name + "_1", name, 1, size());
      forward_.push_back(name + "_1");
      forward_.push_back(name + "_0");
      return;
    }
    std::string target = any_target();
    Names inputs{any(forward_)};
    if (below(2)) inputs.push_back(any(forward_));
    if (shape_.special_ops && below(12) == 0) target = "aten.rand_like.default";
    graph_.call(name, target, inputs, size());
    // Views share the memory of what they show.
    if (target == "aten.permute.default")
      graph_.node(name).storage = graph_.node(inputs[0]).storage;
    if (shape_.special_ops && below(12) == 0) graph_.node(name).effect = true;
    forward_.push_back(name);
  }

  void add_backward(const std::string& name) {
    Names inputs{any(backward_), any(forward_)};
    graph_.call(name, any_target(), inputs, size());
    backward_.push_back(name);
  }

  std::mt19937 random_;
  Shape shape_;
  SmallGraph graph_;
  Names forward_, backward_;
};

// Whether the backward can be computed from `saved` when banned calls are not made again.
class Feasible {
 public:
  Feasible(const JointGraph& graph, const Partition& cut) : graph_(graph), cut_(cut) {
    banned_.assign(graph.nodes.size(), 0);
    for (const Ban& ban : cut.banned) banned_[ban.node] = 1;
  }

  bool operator()(uint32_t saved) const {
    for (JointId id = graph_.n_forward_outputs; id < graph_.outputs.size(); ++id)
      if (graph_.outputs[id] != no_node && !available(saved, graph_.outputs[id])) return false;
    return true;
  }

 private:
  bool available(uint32_t saved, JointId id) const {
    id = cut_.stands_for[id];
    const JointNode& node = graph_.nodes[id];
    if (node.kind == Kind::tangent || saved >> id & 1) return true;
    if (node.kind != Kind::call || banned_[id]) return false;
    return std::all_of(node.inputs.begin(), node.inputs.end(),
                       [&](JointId input) { return available(saved, input); });
  }

  const JointGraph& graph_;
  const Partition& cut_;
  std::vector<char> banned_;
};

int64_t best_of_all(const JointGraph& graph, const Partition& cut) {
  Feasible feasible(graph, cut);
  int64_t best = NodeFacts::infinite;
  for (uint32_t saved = 0; saved < (1u << graph.nodes.size()); ++saved) {
    int64_t value = 0;
    for (JointId id = 0; id < graph.nodes.size() && value < best; ++id)
      if (saved >> id & 1) {
        int64_t weight = cut.facts[id].weight;
        bool possible = weight >= 0 && weight < best && cut.stands_for[id] == id;
        value = possible ? value + weight : best;
      }
    if (value < best && feasible(saved)) best = value;
  }
  return best;
}

TEST(RandomGraphs, AreCutAsCheaplyAsCanBe) {
  for (uint32_t seed = 0; seed < 60; ++seed) {
    SmallGraph small = Generator(seed, {5, 4, false}).make();
    ASSERT_LE(small.graph().nodes.size(), 12u);
    Partition cut = small.cut({.aggressive_recomputation = seed % 2 == 1});
    // Every node of these is an op of the joint graph that something needs, or dead.
    ASSERT_EQ(cut.cut_value, best_of_all(small.graph(), cut)) << "seed " << seed;
  }
}

void expect_runs(const SmallGraph& small, const std::vector<JointId>& calls,
                 std::set<JointId> known, const std::vector<JointId>& results,
                 const Partition& cut) {
  for (JointId id : calls) {
    for (JointId input : small.graph().nodes[id].inputs)
      ASSERT_TRUE(known.count(cut.stands_for[input])) << small.graph().nodes[id].name;
    ASSERT_TRUE(known.insert(id).second) << "computed twice: " << small.graph().nodes[id].name;
  }
  for (JointId id : results) ASSERT_TRUE(id == no_node || known.count(id)) << small.names({id})[0];
}

void expect_consistent(const SmallGraph& small, const Partition& cut) {
  std::set<JointId> primals, given(cut.saved.begin(), cut.saved.end());
  for (JointId id = 0; id < small.graph().nodes.size(); ++id) {
    if (small.graph().nodes[id].kind == Kind::primal) primals.insert(id);
    if (small.graph().nodes[id].kind == Kind::tangent) given.insert(id);
  }
  std::vector<JointId> results = cut.forward_outputs;
  results.insert(results.end(), cut.saved.begin(), cut.saved.end());
  expect_runs(small, cut.forward, primals, results, cut);
  expect_runs(small, cut.backward, given, cut.gradients, cut);
  for (JointId id : cut.backward) {
    EXPECT_FALSE(classes_of(small.graph().nodes[id].target) & class_seeded);
    EXPECT_FALSE(small.graph().nodes[id].effect);
  }
  for (JointId id : cut.saved) EXPECT_EQ(small.graph().nodes[id].type, JointNode::Type::tensor);
}

TEST(RandomGraphs, GiveHalvesThatCanRunUnderAnyOptions) {
  std::mt19937 random(5);
  for (uint32_t seed = 0; seed < 400; ++seed) {
    SCOPED_TRACE(seed);
    SmallGraph small = Generator(seed, {25, 20, true}).make();
    PartitionOptions options{.cse = random() % 2 == 0,
                             .ban_recompute_materialized_backward = random() % 2 == 0,
                             .recompute_views = random() % 3 == 0,
                             .aggressive_recomputation = random() % 2 == 0,
                             .memory_budget = static_cast<double>(random() % 5) / 4};
    options.solver = Names{"dp", "greedy", "ilp", "dp_knapsack_sliding_hirschberg",
                           "dynamic_memory_budget_dp"}[random() % 5];
    expect_consistent(small, small.cut(options));
    expect_consistent(small, default_partition(small.graph(), options));
  }
}

// The same graph with its nodes in another order that respects what they read.
SmallGraph reordered(const SmallGraph& small, std::mt19937& random) {
  const JointGraph& graph = small.graph();
  std::vector<JointId> rest;
  for (JointId id = 0; id < graph.nodes.size(); ++id) rest.push_back(id);
  SmallGraph other;
  std::set<JointId> done;
  while (!rest.empty()) {
    size_t pick = random() % rest.size();
    const JointNode& node = graph.nodes[rest[pick]];
    bool ready = std::all_of(node.inputs.begin(), node.inputs.end(),
                             [&](JointId input) { return done.count(input) != 0; });
    if (!ready) continue;
    if (node.kind == Kind::tangent) other.tangent(node.name, node.bytes);
    if (node.kind == Kind::primal && node.name == "w") other.parameter(node.name, node.bytes);
    if (node.kind == Kind::primal && node.name != "w") other.primal(node.name, node.bytes);
    if (node.kind == Kind::call)
      other.call(node.name, node.target, small.names(node.inputs), node.bytes);
    other.node(node.name).storage = node.storage;
    done.insert(rest[pick]);
    rest.erase(rest.begin() + static_cast<ptrdiff_t>(pick));
  }
  Names results = small.names(graph.outputs);
  other.outputs({results.begin(), results.begin() + 1}, {results.begin() + 1, results.end()});
  return other;
}

TEST(RandomGraphs, AreCutTheSameInEveryOrderOfTheirNodes) {
  std::mt19937 random(6);
  for (uint32_t seed = 0; seed < 100; ++seed) {
    SmallGraph small = Generator(seed, {15, 10, false}).make();
    // These three look at the order: which of equal calls stays, and what lies between two uses.
    PartitionOptions options{.cse = false,
                             .ban_recompute_used_far_apart = false,
                             .ban_recompute_long_fusible_chains = false};
    SmallGraph other = reordered(small, random);
    Names saved = small.saved(options), saved_again = other.saved(options);
    std::sort(saved.begin(), saved.end());
    std::sort(saved_again.begin(), saved_again.end());
    ASSERT_EQ(saved, saved_again) << "seed " << seed;
  }
}

}  // namespace
}  // namespace tenon::partition::tests
