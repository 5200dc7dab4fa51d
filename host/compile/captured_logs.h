// Log artifacts about captured graphs, and about what a recording takes for granted and leaves.
//
// Threads: as report::log.
#pragma once

#include "capture/recording.h"
#include "graph/graph.h"

#include <string>

namespace tenon {

/// Artifacts graph, graph_code and graph_sizes.
void log_captured(const Graph& graph);
/// Artifacts guards, verbose_guards and side_effects. `name`: of the version, for their titles. Warns
/// once of a pass that does not run over the recording.
void log_recording(const std::string& name, const Recording& recording);

}  // namespace tenon
