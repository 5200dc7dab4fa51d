// Timing single ops, for the estimator "profile": one warm run, then the shortest of five.
#include "partition/profile.h"

#include "core/dispatch.h"
#include "core/error.h"
#include "core/random.h"
#include "graph/extract.h"
#include "graph/interpret.h"
#include "graph/passes/aliasing.h"

#include <tenon/ops/create.h>

#include <algorithm>
#include <chrono>

namespace tenon::partition {

namespace {

Tensor example(const GraphValue& value, const JointNode& node) {
  if (value.kind != ValueKind::tensor) return {};
  std::vector<SymInt> sizes(node.sizes.begin(), node.sizes.end());
  if (is_floating(value.meta.dtype))
    return rand(SymIntList(sizes), Dtype::f32).to(value.meta.dtype);
  return zeros(SymIntList(sizes), value.meta.dtype);
}

double shortest_run(const Interpreter& run, std::vector<detail::TensorHead*>& heads) {
  double best = 0;
  for (int i = 0; i < 6; ++i) {
    std::vector<Tensor> outputs(run.graph().outputs().size());
    auto begin = std::chrono::steady_clock::now();
    run.run(heads, {}, outputs);
    std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - begin;
    best = i <= 1 ? took.count() : std::min(best, took.count());
  }
  return best;
}

}  // namespace

double Timer::milliseconds(const JointNode& node) const {
  auto at = std::ranges::find(view_.graph.nodes, node.name, &JointNode::name);
  ensure(at != view_.graph.nodes.end(), "a node to be timed is none of the graph");
  auto id = static_cast<JointId>(at - view_.graph.nodes.begin());
  ValueId v = view_.value_of[id];
  NodeId n = v != no_value ? graph_.value(v).source_index : view_.node_of_tuple.at(id);
  if (node.kind != JointNode::Kind::call || node.target == "getitem") return 0;
  if (draws_numbers(graph_.node(n))) return 0;  // never computed again
  RngState own_numbers{};
  DrawFrom examples_only(own_numbers);  // those of the program are not used up
  Extracted alone = extract_nodes(graph_, std::vector<NodeId>{n});
  std::vector<Tensor> inputs;
  std::vector<detail::TensorHead*> heads;
  for (ValueId in : alone.outer_inputs)
    inputs.push_back(in == no_value
                         ? Tensor()
                         : example(graph_.value(in), view_.graph.nodes[view_.of_value[in]]));
  for (const Tensor& t : inputs) heads.push_back(t.head());
  try {
    BelowAutograd below;
    return shortest_run(Interpreter(alone.graph), heads);
  } catch (const Error&) {
    return 0;  // indices out of range and the like
  }
}

}  // namespace tenon::partition
