// Graphs as JSON: the twin of the text, for tools (docs/graph-text.md).
#pragma once

#include "graph/text/document.h"

#include <memory>
#include <string>
#include <string_view>

namespace tenon::formats {

/// One object, with a line for each symbol, statement and sub-graph.
std::string to_json(const Graph& graph, const PrintOptions& options = {});
/// Throws UserError: bad_file, or unsupported with all unknown ops.
std::shared_ptr<Graph> parse_graph_json(std::string_view text, const ParseOptions& options = {});

}  // namespace tenon::formats
