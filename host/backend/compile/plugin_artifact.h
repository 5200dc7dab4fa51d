// What a plugin compiled, behind the interface of compiled graphs.
#pragma once

#include "backend/backend.h"
#include "graph/artifact.h"

#include <tenon/plugin.h>

#include <memory>
#include <string>

namespace tenon {

struct PluginBackend;

/// Takes over `artifact`, made by `backend` for `request`, and destroys it at last use. `origin`:
/// what it is when saved, but for its bytes; its backend is the one that messages name. Throws
/// BackendError with P23 when it lacks a function that every artifact has.
std::shared_ptr<Artifact> plugin_artifact(tn_artifact* artifact, const PluginBackend& backend,
                                          SavedArtifact origin, const CompileRequest& request);

}  // namespace tenon
