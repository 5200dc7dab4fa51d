// What the options of a call site ask of recording and compiling.
#pragma once

#include "capture/follow/path.h"
#include "capture/trace_policy.h"
#include "graph/artifact.h"
#include "graph/graph.h"
#include "runtime/call.h"

namespace tenon {

/// The backend of the site: an override's, its own, or the default.
std::string backend_of(const detail::Site& site);

/// `left`: see new_trace().
TracePolicy policy_of(detail::Site& site, const detail::Leaves& leaves, const Path* left);

/// The code of a recorded graph, which itself stays as it is, for comparing later recordings.
std::shared_ptr<Artifact> compile_for(detail::Site& site, const std::shared_ptr<Graph>& recorded);

}  // namespace tenon
