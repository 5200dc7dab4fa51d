// What a plugin compiled, behind the interface of compiled graphs.
#pragma once

#include "backend/backend.h"
#include "backend/life/load.h"
#include "graph/artifact.h"

#include <tenon/plugin.h>

#include <memory>
#include <string>

namespace tenon {

/// Takes over `artifact`, made by `backend` of `plugin` for `request`, and destroys it at last use.
/// Throws BackendError with P23 when it lacks a function that every artifact has.
std::shared_ptr<Artifact> plugin_artifact(tn_artifact* artifact, const LoadedPlugin& plugin,
                                          const std::string& backend,
                                          const CompileRequest& request);

}  // namespace tenon
