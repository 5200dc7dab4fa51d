// The default partition: what was traced before the gradients is the forward.
//
// Whatever the forward computes and the backward reads is saved, except that of tensors of which
// the backward only reads sizes the sizes are saved. Nothing is recomputed but what the user
// tagged. Dead calls are dropped but for draws of random numbers, which stay in their half: one of the
// forward does not run again in the backward.
#include "partition/default_cut.h"

#include "partition/extract.h"
#include "partition/work_graph.h"

#include <algorithm>
#include <utility>

namespace tenon::partition {
namespace {

using Kind = JointNode::Kind;
using Recompute = JointNode::Recompute;
using NodeTag = JointNode::Tag;

// By id: in the part of the list that ends with the last node of the forward.
std::vector<char> forward_region(const WorkGraph& graph) {
  auto in_forward = [&](JointId id) {
    const JointNode& node = graph.node(id);
    return graph.is_forward_input(id) ||
           (node.kind == Kind::call &&
            (node.tag == NodeTag::forward || node.tag == NodeTag::must_be_in_forward));
  };
  JointId end = 0;
  for (JointId id : graph.order())
    if (in_forward(id)) end = id + 1;
  std::vector<char> region(graph.size(), 0);
  for (JointId id : graph.order())
    region[id] = id < end && graph.node(id).kind != Kind::tangent &&
                 graph.node(id).kind != Kind::backward_seed &&
                 !(graph.runs_once(id) && graph.of_backward(id));
  return region;
}

// Appends what to save of one node of the forward.
void choose(const WorkGraph& graph, const std::vector<char>& region, JointId id,
            std::vector<JointId>& saved) {
  if (graph.is_number(id)) return saved.push_back(id);
  if (graph.node(id).type == JointNode::Type::tuple || graph.node(id).type == JointNode::Type::none)
    return;
  if (graph.recompute(id) == Recompute::must_save) return saved.push_back(id);
  std::vector<JointId> outside;
  for (JointId user : graph.users(id))
    if (!region[user] || graph.must_recompute(user)) outside.push_back(user);
  bool read_by_output = std::any_of(graph.gradients().begin(), graph.gradients().end(),
                                    [&](JointId gradient) { return gradient == id; });
  bool only_sizes = !read_by_output && std::all_of(outside.begin(), outside.end(),
                                                   [&](JointId u) { return graph.is_number(u); });
  if (only_sizes)
    saved.insert(saved.end(), outside.begin(), outside.end());
  else if (!graph.must_recompute(id))
    saved.push_back(id);
}

bool writes_under_tags(const JointGraph& graph) {
  bool writes = false, tags = false;
  for (const JointNode& node : graph.nodes) {
    writes |= node.kind == Kind::call && (classes_of(node.target) & class_copy) != 0;
    tags |= node.recompute == Recompute::must_save || node.recompute == Recompute::must_recompute;
  }
  return writes && tags;
}

}  // namespace

Partition split_where_traced(const JointGraph& joint, const PartitionOptions& options) {
  WorkGraph graph(joint, false);
  bool has_tags = std::any_of(graph.order().begin(), graph.order().end(),
                              [&](JointId id) { return graph.recompute(id) != Recompute::free; });
  settle_tags(graph, options, true);
  const std::vector<char> region = forward_region(graph);
  std::vector<JointId> saved;
  for (JointId id : graph.order())
    if (region[id]) choose(graph, region, id, saved);
  std::vector<char> seen(graph.size(), 0);
  std::erase_if(saved, [&](JointId id) { return std::exchange(seen[id], 1) != 0; });
  Partition result;
  split_at(graph, saved, has_tags, result);
  return result;
}

Partition default_partition(const JointGraph& joint, const PartitionOptions& options) {
  // The order of the graph says too little where inputs are written and calls run twice.
  if (writes_under_tags(joint)) return min_cut_partition(joint, options);
  return split_where_traced(joint, options);
}

}  // namespace tenon::partition
