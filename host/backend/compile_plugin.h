// Compiling a graph with a backend of a plugin.
#pragma once

#include "backend/backend.h"
#include "backend/discover.h"

namespace tenon {

/// Loads the plugin where it is not yet, builds the request and compiles. A graph that the backend
/// declines goes to its fallback and is counted. Throws BackendError. Any thread; backends that
/// cannot compile on several at once are called one at a time.
std::shared_ptr<Artifact> compile_with_plugin(const BackendChoice& choice,
                                              const CompileRequest& request);

}  // namespace tenon
