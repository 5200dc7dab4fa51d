// From a joint graph to its halves: what the partitioner decided, as two graphs.
#include "partition/split.h"

#include "core/error.h"
#include "core/sym/sym_int.h"
#include "graph/symbol_use.h"
#include "partition/from_graph.h"
#include "partition/partition.h"
#include "partition/peak.h"
#include "partition/profile.h"

#include <algorithm>
#include <map>

namespace tenon::partition {

namespace {

// The calls of one half, each once: of a tuple and its parts the tuple.
std::vector<NodeId> nodes_of(const std::vector<JointId>& calls, const JointView& view,
                             const Graph& graph) {
  std::vector<NodeId> nodes;
  std::vector<bool> known(graph.nodes().size());
  for (JointId id : calls) {
    const JointNode& call = view.graph.nodes[id];
    ValueId v = view.value_of[id];
    if (call.kind != JointNode::Kind::call || call.target == "getitem") continue;
    NodeId n = v != no_value ? graph.value(v).source_index : view.node_of_tuple.at(id);
    if (!known[n]) nodes.push_back(n);
    known[n] = true;
  }
  return nodes;
}

/// The calls of the forward with those that only find out a number which it mentions: to the
/// partitioner, which sees values alone, nobody reads these.
class WithNumbers {
 public:
  explicit WithNumbers(const Graph& graph)
      : graph_(graph), symbols_(graph), placed_(graph.nodes().size()) {}

  std::vector<NodeId> run(std::span<const NodeId> nodes) {
    for (NodeId n : nodes) place(n);
    return std::move(ordered_);
  }

 private:
  void place(NodeId n) {
    if (placed_[n]) return;
    placed_[n] = true;
    const Node& node = graph_.node(n);
    Graph::for_each_use(node, [&](ValueId v) { make(v); });
    symbols_.each_of(node, [&](uint32_t s) { make(graph_.symbols[s].value); });
    ordered_.push_back(n);
  }
  void make(ValueId v) {
    const GraphValue& value = graph_.value(v);
    if (value.source == ValueSource::node) place(value.source_index);
  }

  const Graph& graph_;
  SymbolUse symbols_;
  std::vector<bool> placed_;
  std::vector<NodeId> ordered_;
};

class Splitter {
 public:
  Splitter(const Lowered& joint, Decision decision)
      : graph_(*joint.graph),
        derivative_(*joint.derivative),
        decision_(std::move(decision)),
        extractor_(graph_) {}

  TrainingHalves run() {
    cut_backward();
    cut_forward();
    return std::move(out_);
  }

 private:
  void cut_backward() {
    std::vector<ValueId> inputs = decision_.saved;
    for (ValueId v : graph_.inputs().subspan(derivative_.n_primals)) inputs.push_back(v);
    out_.backward = extractor_.cut(decision_.backward, inputs,
                                   graph_.outputs().last(derivative_.gradients.size()));
    Graph& half = *out_.backward.graph;
    for (size_t i = 0; i < decision_.saved.size(); ++i)
      half.value(half.inputs()[i]).flags.saved = true;
  }

  void cut_forward() {
    std::vector<ValueId> outputs(graph_.outputs().begin(),
                                 graph_.outputs().begin() + derivative_.n_results);
    std::map<ValueId, uint32_t> result_of;
    for (uint32_t i = 0; i < outputs.size(); ++i) result_of.try_emplace(outputs[i], i);
    add_numbers(outputs);
    size_t n_before = outputs.size();  // what is saved comes last
    using Kind = TrainingHalves::Saved::Kind;
    for (ValueId v : decision_.saved) {
      const GraphValue& value = graph_.value(v);
      if (value.source == ValueSource::input) {
        out_.saved.push_back({Kind::primal, value.source_index});
        continue;
      }
      auto [at, is_extra] = result_of.try_emplace(v, static_cast<uint32_t>(outputs.size()));
      if (is_extra) outputs.push_back(v);
      out_.saved.push_back({Kind::result, at->second});
    }
    out_.n_extra = static_cast<uint32_t>(outputs.size() - n_before);
    out_.forward = extractor_.cut(WithNumbers(graph_).run(decision_.forward), {}, outputs);
  }

  // Numbers that the forward finds out and the backward cannot read off what is saved.
  void add_numbers(std::vector<ValueId>& outputs) {
    for (const auto& [symbol, result] : derivative_.symbols) {
      const auto& needed = out_.backward.outer_symbols;
      bool is_needed = std::ranges::any_of(
          needed, [&](uint32_t s) { return graph_.symbols[s].symbol == symbol; });
      if (!is_needed) continue;
      out_.symbols.emplace_back(symbol, static_cast<uint32_t>(outputs.size()));
      outputs.push_back(graph_.outputs()[result]);
    }
  }

  const Graph& graph_;
  const Derivative& derivative_;
  Decision decision_;
  Extractor extractor_;
  TrainingHalves out_;
};

/// Follows a half value by value.
class HalfCheck {
 public:
  explicit HalfCheck(const Graph& graph)
      : graph_(graph), there_(graph.values().size()), ran_(graph.nodes().size()) {
    for (ValueId v : graph.constants()) there_[v] = true;
  }

  void give(ValueId v) { there_[v] = true; }
  /// Numbers cross from one half to the other as symbols do.
  bool has(ValueId v) const {
    return v == no_value || there_[v] || graph_.value(v).kind != ValueKind::tensor;
  }
  bool has_all(std::span<const ValueId> values) const {
    return std::ranges::all_of(values, [&](ValueId v) { return has(v); });
  }
  bool run(std::span<const NodeId> nodes) {
    return std::ranges::all_of(nodes, [&](NodeId n) { return run(n); });
  }

 private:
  bool run(NodeId n) {
    const Node& node = graph_.node(n);
    bool can_run = !ran_[n];
    Graph::for_each_use(node, [&](ValueId v) { can_run &= has(v); });
    ran_[n] = true;
    for (uint32_t r = 0; r < node.n_results; ++r) there_[node.first_result + r] = true;
    return can_run;
  }

  const Graph& graph_;
  std::vector<bool> there_, ran_;
};

}  // namespace

std::string problem_of(const Lowered& joint, const Decision& decision) {
  const Graph& graph = *joint.graph;
  const Derivative& derivative = *joint.derivative;
  auto primals = graph.inputs().first(derivative.n_primals),
       tangents = graph.inputs().subspan(derivative.n_primals);
  HalfCheck forward(graph), backward(graph);
  for (ValueId v : primals) forward.give(v);
  if (!forward.run(decision.forward)) return "its forward cannot run in that order";
  if (!forward.has_all(graph.outputs().first(derivative.n_results)))
    return "its forward does not make all results";
  if (!forward.has_all(decision.saved)) return "its forward does not make all that is saved";
  for (ValueId v : tangents) backward.give(v);
  for (ValueId v : decision.saved) backward.give(v);
  if (!backward.run(decision.backward)) return "its backward cannot run in that order";
  if (!backward.has_all(graph.outputs().last(derivative.gradients.size())))
    return "its backward does not make all gradients";
  return "";
}

namespace {

// Why a value is saved, by the rules that the cut went by.
std::string_view reason_of(JointId id, const JointGraph& graph, const Partition& made) {
  const JointNode& node = graph.nodes[id];
  if (node.kind == JointNode::Kind::primal) return "an input, kept as it is";
  auto ban = std::ranges::find(made.banned, id, &Ban::node);
  if (ban != made.banned.end()) return text_of(ban->reason);
  if (made.n_cuts == 0) return "the default partitioner keeps what the backward reads";
  return "the smallest from which the backward can be computed";
}

}  // namespace

Decision decide(const Lowered& joint, const std::string& partitioner,
                std::optional<double> memory_budget) {
  JointView view = view_of(joint);
  PartitionOptions options = PartitionOptions::from_flags();
  options.cse = false;  // done on the graph
  if (memory_budget) options.memory_budget = *memory_budget;
  Timer timer(*joint.graph, view);
  options.profile = [&](const JointNode& node) { return timer.milliseconds(node); };
  Partition made = partitioner == "default" ? default_partition(view.graph, options)
                                            : partition_of_least_peak(view.graph, options);
  Decision out;
  out.forward = nodes_of(made.forward, view, *joint.graph);
  out.backward = nodes_of(made.backward, view, *joint.graph);
  for (const std::vector<JointId>* ids : {&made.saved_symbols, &made.saved, &made.saved_opaque})
    for (JointId id : *ids) {
      out.saved.push_back(view.value_of[id]);
      out.reasons.push_back(reason_of(id, view.graph, made));
    }
  return out;
}

TrainingHalves cut(const Lowered& joint, Decision decision) {
  return Splitter(joint, std::move(decision)).run();
}

TrainingHalves split(const Lowered& joint, const std::string& partitioner) {
  return cut(joint, decide(joint, partitioner));
}

}  // namespace tenon::partition
