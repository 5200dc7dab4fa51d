// What a plugin compiled, behind the interface of compiled graphs.
#pragma once

#include "graph/artifact.h"

#include <tenon/plugin.h>

#include <memory>
#include <string>

namespace tenon {

/// Takes over `artifact` and destroys it at last use. Throws BackendError when it lacks a function
/// that every artifact has; `backend` is named in messages.
std::shared_ptr<Artifact> plugin_artifact(tn_artifact* artifact, std::string backend);

}  // namespace tenon
