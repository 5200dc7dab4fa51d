// What log artifacts tell of a graph that a plugin compiles, and of the code that it made.
//
// Threads: as report::log.
#pragma once

#include "backend/backend.h"
#include "graph/artifact.h"

#include <string>

namespace tenon {

/// Artifact post_grad_graphs: the graph as the plugin gets it.
void log_graph_for(const std::string& backend, const CompileRequest& request);
/// Artifacts about the code, for those of its texts that the plugin has.
void log_code(const std::string& backend, const CompileRequest& request, const Artifact& artifact);
/// Artifact perf_hints.
void log_perf_hint(const std::string& text);

}  // namespace tenon
