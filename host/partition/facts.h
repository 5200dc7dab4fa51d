// What a node of a joint graph is to the cut: which half needs it, how far it is from the backward,
// what saving it costs.
//
// Threads: pure functions.
#pragma once

#include "partition/work_graph.h"

namespace tenon::partition {

constexpr int64_t unreachable_distance = 1'000'000'000;

struct CutFacts {
  std::vector<NodeFacts> nodes;        ///< by id
  std::vector<char> follows_tangents;  ///< by id: computed from a tangent, or tied to the backward
  std::vector<char> for_backward;      ///< by id: of those, and the gradients themselves
  std::vector<char> is_static;         ///< by id: a parameter
  bool has_backward = false;

  bool in_forward(JointId id) const { return nodes[id].place == NodeClass::forward; }
};

/// All facts but the weights.
CutFacts find_facts(const WorkGraph& graph);

/// Whether `b` can be computed in the loop that computes `a`.
bool is_fusible(const WorkGraph& graph, JointId a, JointId b);

/// What saving the node costs in the cut; NodeFacts::infinite where that cannot be done.
int64_t weight_of(const WorkGraph& graph, const CutFacts& facts, const PartitionOptions& options,
                  JointId id);

}  // namespace tenon::partition
