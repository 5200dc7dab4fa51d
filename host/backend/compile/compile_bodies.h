// Control flow for backends that do not take it: its bodies are compiled, the host branches.
#pragma once

#include "backend/backend.h"
#include "graph/artifact.h"

namespace tenon {

/// The interpreter of a functional graph in which the bodies of control flow are code of backend
/// `name`, which left the graph itself. Bodies that use symbols which their operands do not show
/// are interpreted.
std::shared_ptr<Artifact> interpreter_over_bodies(const std::string& name,
                                                  const CompileRequest& request);

/// The same of bodies that have been compiled.
std::shared_ptr<Artifact> interpreter_over_bodies(std::shared_ptr<const Graph> graph,
                                                  BodyCode code);

}  // namespace tenon
