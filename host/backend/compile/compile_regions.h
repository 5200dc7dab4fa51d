// Compiling the parts of a graph that a backend supports.
#pragma once

#include "backend/compile/call_backend.h"

namespace tenon {

/// Asks the backend which nodes it supports, cuts the graph into regions for it and pieces for its
/// fallback, compiles each and joins them. A graph that is supported as a whole is compiled as it
/// is. Throws BackendError; `unsupported`, with every op named, where there is no fallback.
std::shared_ptr<Artifact> compile_in_regions(const PluginBackend& backend, AbiRequest& request);

/// The same for a backend whose code would run all nodes with gradients as the caller has it: what
/// runs otherwise is left to the fallback.
std::shared_ptr<Artifact> compile_in_caller_mode(const PluginBackend& backend, AbiRequest& request);

/// From here on backends of this process get so many regions; those that follow, in the order of
/// compilation, are left to fallbacks. For finding the region that fails.
void limit_regions(int64_t count);
/// Regions since then, those that were left included.
int64_t regions_since_limit();

}  // namespace tenon
