// Graph text to graphs; see docs/graph-text.md.
#pragma once

#include "graph/text/document.h"

#include <memory>
#include <string_view>

namespace tenon {

/// Throws UserError: bad_file with line and column, or unsupported with the names of all unknown
/// ops.
std::shared_ptr<Graph> parse_graph(std::string_view text, const ParseOptions& options = {});
/// Only the form is checked; what names and expressions mean is settled by build_graph.
GraphDoc parse_document(std::string_view text);

}  // namespace tenon
