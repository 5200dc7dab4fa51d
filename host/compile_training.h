// The way of a graph whose gradients are wanted: joint graph, two halves, two compiles.
#pragma once

#include "aot/lower.h"
#include "backend/backend.h"

#include <functional>

namespace tenon {

using AskBackend = std::function<std::shared_ptr<Artifact>(const CompileRequest&)>;

/// The artifact of `graph` with a compiled backward; null where the graph cannot be differentiated
/// ahead, of which a log line tells why. `request` holds everything but the graph; `ask` compiles
/// a half with the backend, and is kept for the one that is compiled later.
std::shared_ptr<Artifact> compile_training(const std::shared_ptr<Graph>& graph,
                                           const BackendInfo& backend, const LowerOptions& lower,
                                           const CompileRequest& request, const AskBackend& ask);

}  // namespace tenon
