// Graphs as JSON, the twin of the text; see docs/graph-text.md.
#pragma once

#include "graph/text/document.h"

#include <memory>
#include <string>
#include <string_view>

namespace tenon {

std::string to_json(const Graph& graph, const PrintOptions& options = {});
/// Throws UserError: bad_file, or unsupported with the names of all unknown ops.
std::shared_ptr<Graph> parse_graph_json(std::string_view text, const ParseOptions& options = {});

}  // namespace tenon
