// What each node of a graph must wait for.
#pragma once

#include "graph/graph.h"

#include <span>
#include <vector>

namespace tenon {

/// The nodes that must have run before a node. Any order that respects them computes what the graph
/// computes. Edges come from
///   values    the node reads a result
///   symbols   it uses a number that only a result shows
///   memory    it reads what an earlier one wrote, or writes what an earlier one read or wrote,
///             through any value that may share the storage
///   effects   both have one, or both draw random numbers
/// Cost: near linear in nodes and uses. Threads: immutable.
class Dependencies {
 public:
  explicit Dependencies(const Graph& graph);

  /// Earlier nodes, some more than once.
  std::span<const NodeId> before(NodeId n) const {
    return {edges_.data() + first_[n], first_[n + 1] - first_[n]};
  }
  /// True when a path leaves the set of nodes and comes back; `n` is then the node of the set that
  /// waits for one outside.
  bool leaves_and_returns(const std::vector<bool>& inside, NodeId& n) const;
  size_t n_nodes() const { return first_.size() - 1; }

 private:
  std::vector<size_t> first_;  // by node, and one past the end
  std::vector<NodeId> edges_;
};

}  // namespace tenon
