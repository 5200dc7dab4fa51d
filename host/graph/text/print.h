// Graphs as text; see docs/graph-text.md.
#pragma once

#include "graph/text/document.h"

#include <string>

namespace tenon {

std::string to_text(const Graph& graph, const PrintOptions& options);
inline std::string to_text(const Graph& graph) { return to_text(graph, PrintOptions{}); }
/// The text that hashes and keys are made of.
std::string canonical_text(const Graph& graph);
/// One node as its line of text, for messages.
std::string node_text(const Graph& graph, NodeId node);

/// The text of a document, of one of its statements, values (`%x: f32[2, 3]`) and literals.
std::string print_document(const GraphDoc& doc);
std::string statement_text(const StatementDoc& statement);
std::string value_text(const ValueDoc& value);
std::string literal_text(const Literal& literal);
/// A double that reads back as the same double, always with a point or an exponent.
std::string double_text(double value);
/// In quotes, with escapes.
std::string quoted(std::string_view text);

}  // namespace tenon
