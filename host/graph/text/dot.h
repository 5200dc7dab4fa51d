// Graphs as pictures: text for Graphviz' `dot`.
#pragma once

#include "core/dispatch.h"
#include "graph/graph.h"

#include <string>

namespace tenon {

struct DotOptions {
  bool shapes = true;     ///< label edges with types
  bool constants = true;  ///< draw constants
};

std::string to_dot(const Graph& graph, const DotOptions& options = {});

}  // namespace tenon
