// Classes, distances and weights of nodes.
//
// Weight: bytes, times 1.1 for each step to the nearest use in the backward (at least one, at most
// a hundred), so that of equal values the one nearer to its use is saved; doubled where the value
// would otherwise not be written to memory at all, since all its users can be fused with it.
#include "partition/facts.h"

#include "core/error.h"
#include "partition/extract.h"

#include <algorithm>
#include <cmath>

namespace tenon::partition {

using Kind = JointNode::Kind;
using Type = JointNode::Type;

namespace {

void find_classes(const WorkGraph& graph, CutFacts& facts) {
  for (JointId id : graph.order()) {
    auto inputs = graph.inputs(id);
    facts.follows_tangents[id] =
        graph.node(id).kind == Kind::tangent || (graph.runs_once(id) && graph.of_backward(id)) ||
        std::any_of(inputs.begin(), inputs.end(),
                    [&](JointId input) { return facts.follows_tangents[input] != 0; });
    facts.for_backward[id] = facts.follows_tangents[id];
  }
  for (JointId id : graph.gradients())
    if (id != no_node) facts.for_backward[id] = 1;

  std::vector<JointId> arguments;
  for (JointId id : graph.order())
    if (graph.is_forward_input(id)) arguments.push_back(id);
  ExtractedHalf forward = extract(graph, arguments, graph.forward_outputs(), Half::forward);
  for (JointId id : graph.order())
    facts.nodes[id].place = facts.for_backward[id] ? NodeClass::backward : NodeClass::unclaimed;
  for (const auto& list : {arguments, forward.calls})
    for (JointId id : list) facts.nodes[id].place = NodeClass::forward;
  uint32_t rank = 0;
  for (JointId id : graph.order()) {
    facts.has_backward |= facts.for_backward[id] != 0;
    if (facts.in_forward(id)) facts.nodes[id].forward_order = rank++;
  }
}

void find_distances(const WorkGraph& graph, CutFacts& facts) {
  for (size_t i = graph.order().size(); i-- > 0;) {
    JointId id = graph.order()[i];
    if (!facts.in_forward(id)) continue;
    int64_t nearest = unreachable_distance;
    for (JointId user : graph.users(id))
      nearest = std::min(nearest, facts.nodes[user].distance + 1);
    facts.nodes[id].distance = nearest;
  }
}

// Also of a tuple's own results: whoever computes them writes them to memory.
bool is_materialized(const WorkGraph& graph, JointId id) {
  if (graph.is_input(id)) return true;
  auto users = graph.users(id);
  if (graph.is_output(id)) return true;
  return !std::all_of(users.begin(), users.end(),
                      [&](JointId user) { return is_fusible(graph, id, user); });
}

}  // namespace

CutFacts find_facts(const WorkGraph& graph) {
  CutFacts facts;
  facts.nodes.resize(graph.size());
  facts.follows_tangents.assign(graph.size(), 0);
  facts.for_backward.assign(graph.size(), 0);
  facts.is_static.assign(graph.size(), 0);
  for (JointId id : graph.joint().static_inputs) {
    ensure(id < graph.size(), "joint graph: a static input is not a node");
    facts.is_static[id] = 1;
  }
  find_classes(graph, facts);
  find_distances(graph, facts);
  return facts;
}

bool is_fusible(const WorkGraph& graph, JointId a, JointId b) {
  if (graph.classes(b) & class_cat) return true;
  return fuses(graph.classes(a)) && fuses(graph.classes(b));
}

int64_t weight_of(const WorkGraph& graph, const CutFacts& facts, const PartitionOptions& options,
                  JointId id) {
  const JointNode& node = graph.node(id);
  switch (node.type) {
    case Type::sym_int:
    case Type::sym_bool:
      return 1;
    case Type::sym_float:
      return 4;
    case Type::opaque:
      return 0;
    case Type::tuple:
    case Type::none:
      return NodeFacts::infinite;
    case Type::tensor:
      break;
  }
  if (facts.is_static[id] && options.treat_parameters_as_free_to_save) return 0;
  if (options.recompute_views && graph.is_view(id) && !graph.runs_once(id))
    return NodeFacts::infinite;
  int64_t steps = std::clamp<int64_t>(facts.nodes[id].distance, 1, 100);
  double bytes = static_cast<double>(node.bytes) * std::pow(1.1, static_cast<double>(steps));
  // Far beyond any memory, and small enough that the sum over all nodes stays below 2^60.
  double most = 0x1p59 / static_cast<double>(graph.size());
  int64_t weight = static_cast<int64_t>(std::clamp(bytes, 0.0, most));
  return is_materialized(graph, id) ? weight : 2 * weight;
}

}  // namespace tenon::partition
