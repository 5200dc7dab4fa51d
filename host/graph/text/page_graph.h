// Graphs as pages of reports draw them.
#pragma once

#include "graph/graph.h"
#include "report/page_graph.h"

namespace tenon {

struct PageGraphOptions {
  uint32_t n_saved = 0;  ///< how many of the last outputs are kept for a backward
  /// By node: who runs it, empty for the backend of the graph; or empty.
  std::vector<std::string> run_by = {};
};

/// A text that is too long for a page is cut.
report::PageGraph page_graph(const Graph& graph, const PageGraphOptions& options = {});

}  // namespace tenon
