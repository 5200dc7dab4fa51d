// Graphs as pages of reports draw them.
#pragma once

#include "graph/graph.h"
#include "report/page_graph.h"

namespace tenon {

/// `n_saved`: how many of the last outputs are kept for a backward. A text that is too long for a
/// page is cut.
report::PageGraph page_graph(const Graph& graph, uint32_t n_saved = 0);

}  // namespace tenon
