// Compiling a graph with a backend of a plugin.
#pragma once

#include "backend/abi/abi_request.h"
#include "backend/backend.h"
#include "backend/compile/plugin_cache.h"
#include "backend/find/discover.h"
#include "backend/life/load.h"

#include <mutex>

namespace tenon {

/// A backend of a loaded plugin.
struct PluginBackend {
  const LoadedPlugin& plugin;
  const BackendManifest& manifest;
  const tn_backend& table;
  const CacheScope* cache = nullptr;  ///< null: it keeps nothing on disk

  /// Held while a function of a backend runs that cannot be called on several threads at once.
  std::unique_lock<std::recursive_mutex> lock() const;
};

/// Loads the plugin where it is not yet, and compiles. What the backend does not take, nodes by its
/// `supports` or whole graphs by declining them, goes to its fallback and is counted. Throws
/// BackendError. Any thread.
std::shared_ptr<Artifact> compile_with_plugin(const BackendChoice& choice,
                                              const CompileRequest& request);

/// Compiles an eager op: as compile_with_plugin, but what the backend declines is thrown, as
/// BackendError with TN_DECLINED.
std::shared_ptr<Artifact> compile_single_op(const BackendChoice& choice,
                                            const CompileRequest& request);

/// Loads the plugin where it is not yet, and what it or its like has saved for the request. Throws
/// BackendError, also where the backend saved it under another fingerprint. Any thread.
std::shared_ptr<Artifact> load_with_plugin(const BackendChoice& choice,
                                           const CompileRequest& request,
                                           const SavedArtifact& saved);

/// Calls the backend's compile; a graph that it declines goes to its fallback.
std::shared_ptr<Artifact> compile_whole(const PluginBackend& backend, AbiRequest& request);

}  // namespace tenon
