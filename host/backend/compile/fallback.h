// Who compiles what a backend does not take.
#pragma once

#include "backend/backend.h"
#include "backend/find/manifest.h"

#include <tenon/plugin.h>

#include <set>
#include <string>

namespace tenon {

/// Compiles the graph with the fallback of the manifest: the host's interpreter ("eager"), or
/// another backend. Counted; the artifact's statistics name all ops of the graph as run by somebody
/// else. Throws BackendError when there is no fallback, or when it cannot take the graph.
std::shared_ptr<Artifact> compile_with_fallback(const BackendManifest& manifest,
                                                const CompileRequest& request,
                                                const std::string& reason);

/// For a backend without a fallback that returned TN_DECLINED: throws BackendError with the ops of
/// the graph. Frees the status.
[[noreturn]] void refuse_declined(const BackendManifest& manifest, const Graph& graph,
                                  tn_status* status);

/// The artifact of a graph that was meant for somebody else: its statistics say so.
std::shared_ptr<Artifact> as_fallback(std::shared_ptr<Artifact> artifact, const Graph& graph);

/// "aten.mm.default, aten.relu.default": each op of the graph once.
std::set<std::string> names_of_ops(const Graph& graph);

}  // namespace tenon
