// Cutting a set of nodes out of a graph as a graph of their own.
#pragma once

#include "graph/graph.h"

#include <memory>
#include <span>
#include <vector>

namespace tenon {

struct Extracted {
  std::shared_ptr<Graph> graph;
  std::vector<ValueId> outer_inputs, outer_outputs;  ///< values of the outer graph, by position
};

/// The nodes must form a convex region: no path leaves it and comes back. Throws UserError
/// otherwise. Outputs are the results that somebody outside reads, in order.
Extracted extract_nodes(const Graph& graph, std::span<const NodeId> nodes);

}  // namespace tenon
