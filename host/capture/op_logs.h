// Log artifacts trace_call and trace_source: operations as they are recorded.
#pragma once

#include "graph/graph.h"

namespace tenon {

/// Of the newest node of a recording.
void log_recorded(const Graph& graph, NodeId node);

}  // namespace tenon
