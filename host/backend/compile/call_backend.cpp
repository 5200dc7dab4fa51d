// Compiling with a plugin: whole graphs, and graphs of which it takes parts.
#include "backend/compile/call_backend.h"

#include "backend/abi/abi_request.h"
#include "backend/abi/status.h"
#include "backend/catalog.h"
#include "backend/compile/code_logs.h"
#include "backend/compile/compile_regions.h"
#include "backend/compile/declined.h"
#include "backend/compile/fallback.h"
#include "backend/compile/grad_modes.h"
#include "backend/compile/plugin_artifact.h"
#include "backend/compile/verdicts.h"
#include "backend/life/crash_report.h"
#include "backend/life/shutdown.h"
#include "graph/passes/aliasing.h"

#include <algorithm>

namespace tenon {

namespace {

// Inside of the plugin: a shutdown on another thread may unmap the names of its tables.
const tn_backend& table_of(const LoadedPlugin& plugin, const BackendManifest& manifest) {
  InPlugin in(plugin.net.life());
  if (!in) throw_closed();
  auto table = std::find_if(plugin.backends.begin(), plugin.backends.end(),
                            [&](const tn_backend& b) { return view_of(b.name) == manifest.name; });
  ensure(table != plugin.backends.end(), "a loaded plugin lacks a backend of its manifest");
  return *table;
}

// Backends that hand graphs to each other, by compile_with or as fallbacks, must come to an end.
void check_chain(const std::vector<std::string>& chain, const std::string& id) {
  constexpr size_t most = 8;
  std::string path;
  for (const std::string& link : chain) path += link + ", ";
  bool is_cycle = std::find(chain.begin(), chain.end(), id) != chain.end();
  if (is_cycle)
    throw BackendError(
        ErrorCode::backend_compiler_failed, TN_FAILED_PRECONDITION,
        message("backend {} is already compiling this graph; a cycle of backends cannot end: {}{}; "
                "let one of them use \"eager\"",
                id, path, id));
  if (chain.size() >= most)
    throw BackendError(
        ErrorCode::backend_compiler_failed, TN_FAILED_PRECONDITION,
        message("more than {} backends hand a graph to each other: {}{}", most, path, id));
}

}  // namespace

// One backend may have another one compile, on the same thread.
std::unique_lock<std::recursive_mutex> PluginBackend::lock() const {
  static std::recursive_mutex serial_compiles;
  std::unique_lock lock(serial_compiles, std::defer_lock);
  if (!manifest.threadsafe_compile) lock.lock();
  return lock;
}

std::shared_ptr<Artifact> compile_whole(const PluginBackend& backend, AbiRequest& request) {
  tn_artifact* artifact = nullptr;
  tn_status* status = nullptr;
  log_graph_for(backend.manifest.name, *request.ctx.request);
  {
    auto lock = backend.lock();
    std::string function = message("compile of backend {}", backend.manifest.name);
    std::string place = function + ", " + place_text(*request.ctx.request);
    PluginCompile now{*request.ctx.request, backend.plugin.name, backend.manifest.name};
    LeavesGraphOnCrash on_crash(now);
    status = call_plugin(
        backend.plugin.net, function,
        [&] { return backend.table.compile(backend.table.self, &request.abi, &artifact); }, place);
  }
  const std::string& name = backend.manifest.name;
  bool may_leave = request.ctx.request->stage != Stage::single_op;
  if (status && status->code == TN_DECLINED && may_leave) {
    if (backend.manifest.fallback.empty())
      refuse_declined(backend.manifest, *request.ctx.request->graph, status);
    std::string reason = status->text;
    free_status(status);
    const CompileRequest& declined = *request.ctx.request;
    note_declined(
        {name, backend.manifest.fallback, reason, declined.graph->nodes().size(), declined.stage});
    return compile_with_fallback(backend.manifest, declined, reason);
  }
  if (status) throw_status(status, ErrorCode::backend_compiler_failed, message("backend {}", name));
  if (!backend.plugin.has_compiled.exchange(true)) expect_shutdown();
  SavedArtifact origin{.backend = name};
  if (backend.cache) origin.fingerprint = backend.cache->said;
  origin.flags = request.ctx.flags_read;
  std::shared_ptr<Artifact> out =
      plugin_artifact(artifact, backend, std::move(origin), *request.ctx.request);
  if (has_both_modes(*request.ctx.request) && !request.follows_modes())
    return compile_in_caller_mode(backend, request);
  out->guards = request.ctx.guards;
  log_code(name, *request.ctx.request, *out);
  return out;
}

namespace {

// A graph that the manifest does not admit is never shown to the backend.
std::shared_ptr<Artifact> leave_to_fallback(const BackendManifest& manifest,
                                            const CompileRequest& request,
                                            const std::string& reason) {
  if (manifest.fallback.empty())
    throw BackendError(ErrorCode::unsupported, TN_UNIMPLEMENTED,
                       message("backend {} cannot take the graph: {}; it has no fallback, so use "
                               "another backend",
                               manifest.name, reason));
  note_declined(
      {manifest.name, manifest.fallback, reason, request.graph->nodes().size(), request.stage});
  return compile_with_fallback(manifest, request, reason);
}

}  // namespace

std::shared_ptr<Artifact> compile_with_plugin(const BackendChoice& choice,
                                              const CompileRequest& request) {
  std::string id = choice.plugin->manifest.name + "/" + choice.manifest().name;
  check_chain(request.chain, id);
  CompileRequest linked = request;
  linked.chain.push_back(id);
  std::string outside = outside_of_manifest(choice.manifest(), request, false);
  if (!outside.empty()) return leave_to_fallback(choice.manifest(), linked, outside);
  const LoadedPlugin& plugin = load_plugin(plugin_catalog(), choice.plugin);
  PluginBackend backend{plugin, choice.manifest(), table_of(plugin, choice.manifest())};
  backend.cache = cache_scope_of(backend);
  AbiRequest rq(backend.manifest, plugin.name, linked, backend.cache);
  if (judges_nodes(backend.table) && !request.graph->nodes().empty())
    return compile_in_regions(backend, rq);
  outside = outside_of_manifest(backend.manifest, request, true);
  if (!outside.empty()) return leave_to_fallback(backend.manifest, linked, outside);
  return compile_whole(backend, rq);
}

std::shared_ptr<Artifact> compile_single_op(const BackendChoice& choice,
                                            const CompileRequest& request) {
  std::string outside = outside_of_manifest(choice.manifest(), request, true);
  if (!outside.empty())
    throw BackendError(ErrorCode::backend_compiler_failed, TN_DECLINED, outside);
  const LoadedPlugin& plugin = load_plugin(plugin_catalog(), choice.plugin);
  PluginBackend backend{plugin, choice.manifest(), table_of(plugin, choice.manifest())};
  backend.cache = cache_scope_of(backend);
  AbiRequest rq(backend.manifest, plugin.name, request, backend.cache);
  return compile_whole(backend, rq);
}

// The fingerprint is the maker's: who loads the code of others judges it by its bytes.
static void check_fingerprint(const PluginBackend& backend, const SavedArtifact& saved) {
  const std::string& name = backend.manifest.name;
  bool is_judged = name == saved.backend && !saved.fingerprint.empty();
  if (!is_judged || (backend.cache && backend.cache->said == saved.fingerprint)) return;
  throw BackendError(
      ErrorCode::backend_compiler_failed, TN_FAILED_PRECONDITION,
      message(
          "backend {}: load: its fingerprint {}, so what it saved cannot be used; compile again",
          name, backend.cache ? "is another one than when the code was saved" : "failed"));
}

std::shared_ptr<Artifact> load_with_plugin(const BackendChoice& choice,
                                           const CompileRequest& request,
                                           const SavedArtifact& saved) {
  const LoadedPlugin& plugin = load_plugin(plugin_catalog(), choice.plugin);
  PluginBackend backend{plugin, choice.manifest(), table_of(plugin, choice.manifest())};
  const std::string& name = backend.manifest.name;
  if (!backend.table.load)
    throw BackendError(ErrorCode::plugin, TN_UNIMPLEMENTED,
                       message("backend {} of {} loads no saved code", name, plugin.path));
  // What is not in the saved code, such as plans of libraries, the backend may have kept there.
  backend.cache = cache_scope_of(backend);
  check_fingerprint(backend, saved);
  AbiRequest rq(backend.manifest, plugin.name, request, backend.cache);
  tn_artifact* artifact = nullptr;
  tn_status* status = nullptr;
  {
    auto lock = backend.lock();
    status = call_plugin(plugin.net, message("load of backend {}", name), [&] {
      return backend.table.load(backend.table.self, &rq.abi, str_of(saved.bytes), &artifact);
    });
  }
  if (status)
    throw_status(status, ErrorCode::backend_compiler_failed, message("backend {}: load", name));
  if (!plugin.has_compiled.exchange(true)) expect_shutdown();
  std::shared_ptr<Artifact> out = plugin_artifact(artifact, backend, saved, request);
  log_code(name, request, *out);
  return out;
}

CompileRequest request_for_piece(const CompileRequest& request, std::shared_ptr<Graph> piece) {
  CompileRequest out = request;
  out.graph = std::move(piece);
  out.static_inputs.clear();
  out.mutated_inputs.clear();
  out.aliased_outputs.clear();
  out.n_saved = 0;
  Graph& graph = *out.graph;
  for (ValueId v : graph.inputs()) graph.value(v).flags.mutated = false;
  AliasClasses classes(graph);
  std::vector<uint32_t> base(graph.values().size(), no_value);  // the input whose memory it is
  for (uint32_t i = 0; i < graph.inputs().size(); ++i) {
    GraphValue& input = graph.value(graph.inputs()[i]);
    base[graph.inputs()[i]] = i;
    if (input.flags.static_address) out.static_inputs.push_back(i);
    if (!classes.is_written(graph.inputs()[i])) continue;
    input.flags.mutated = true;
    out.mutated_inputs.push_back(i);
  }
  for (const Node& node : graph.nodes()) {
    const OpEntry& op = entry_of(node.op);
    bool is_view = (op.tags & TN_TAG_VIEW) && !(op.tags & TN_TAG_MAYBE_ALIAS);
    size_t from = op.returned_arg >= 0 ? static_cast<size_t>(op.returned_arg) : 0;
    if ((!is_view && op.returned_arg < 0) || node.args[from].tag != Tag::ref) continue;
    for (uint32_t r = 0; r < (is_view ? node.n_results : 1); ++r)
      base[node.first_result + r] = base[static_cast<ValueId>(node.args[from].payload)];
  }
  for (ValueId v : graph.outputs())
    out.aliased_outputs.push_back(v == no_value ? no_value : base[v]);
  return out;
}

}  // namespace tenon
