// When the code of a segment of a cut body may be used again.
#pragma once

#include "core/sym/sym_program.h"
#include "graph/artifact.h"
#include "graph/graph.h"

#include <optional>

namespace tenon {

/// Code holds for the sizes that the backend asked for and what the recording before the segment
/// had decided on or asserted, which lowering relies on: conditions over the symbols of the graph
/// that are known before it runs. What its own nodes compute, it asserts itself. Nothing when all
/// that cannot be told from these symbols.
std::optional<SymProgram> segment_conditions(const Graph& graph, const Artifact& artifact);

}  // namespace tenon
