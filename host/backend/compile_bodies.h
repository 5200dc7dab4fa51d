// Control flow for backends that do not take it: its bodies are compiled, the host branches.
#pragma once

#include "backend/backend.h"

namespace tenon {

/// The interpreter of a functional graph in which the bodies of control flow are code of backend
/// `name`, which left the graph itself. Bodies that use symbols which their operands do not show
/// are interpreted.
std::shared_ptr<Artifact> interpreter_over_bodies(const std::string& name,
                                                  const CompileRequest& request);

}  // namespace tenon
