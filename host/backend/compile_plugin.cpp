// Compiling with a plugin: the request as the plugin sees it, the call, and who takes what it
// declines.
#include "backend/compile_plugin.h"

#include "backend/abi_request.h"
#include "backend/declined.h"
#include "backend/load.h"
#include "backend/plugin_artifact.h"
#include "backend/registry.h"
#include "backend/shutdown.h"
#include "backend/status.h"
#include "report/events.h"
#include "report/log.h"

#include <algorithm>
#include <mutex>

namespace tenon {

namespace {

const tn_backend& table_of(const LoadedPlugin& plugin, const BackendManifest& manifest) {
  auto table = std::find_if(plugin.backends.begin(), plugin.backends.end(),
                            [&](const tn_backend& b) { return view_of(b.name) == manifest.name; });
  ensure(table != plugin.backends.end(), "a loaded plugin lacks a backend of its manifest");
  return *table;
}

std::shared_ptr<Artifact> compile_with_fallback(const BackendManifest& manifest,
                                                const CompileRequest& request,
                                                const std::string& reason) {
  report::log(report::LogLevel::info, "backend", "{} declined the graph: {}; {} takes it",
              manifest.name, reason, manifest.fallback);
  report::counter("fallback.calls").add();
  note_declined({manifest.name, manifest.fallback, reason, request.graph->nodes().size()});
  return manifest.fallback == "eager" ? interpreter_artifact(request.graph)
                                      : compile_with_backend(manifest.fallback, request);
}

}  // namespace

std::shared_ptr<Artifact> compile_with_plugin(const BackendChoice& choice,
                                              const CompileRequest& request) {
  const LoadedPlugin& plugin = load_plugin(plugin_catalog(), choice.plugin);
  const BackendManifest& manifest = choice.manifest();
  const tn_backend& table = table_of(plugin, manifest);
  AbiRequest rq(manifest, plugin.name, request);
  tn_artifact* artifact = nullptr;
  tn_status* status = nullptr;
  static std::mutex serial_compiles;
  {
    std::unique_lock lock(serial_compiles, std::defer_lock);
    if (!manifest.threadsafe_compile) lock.lock();
    status = call_plugin(plugin.net, message("compile of backend {}", manifest.name),
                         [&] { return table.compile(table.self, &rq.abi, &artifact); });
  }
  if (status && status->code == TN_DECLINED && !manifest.fallback.empty()) {
    std::string reason = status->text;
    free_status(status);
    return compile_with_fallback(manifest, request, reason);
  }
  if (status)
    throw_status(status, ErrorCode::backend_compiler_failed, message("backend {}", manifest.name));
  if (!plugin.has_compiled.exchange(true)) expect_shutdown();
  std::shared_ptr<Artifact> out = plugin_artifact(artifact, plugin, manifest.name, request);
  out->guards = rq.ctx.guards;
  return out;
}

}  // namespace tenon
