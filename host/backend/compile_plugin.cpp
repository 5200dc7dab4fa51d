// Compiling with a plugin: the request as the plugin sees it, the call, and who takes what it
// declines.
#include "backend/compile_plugin.h"

#include "backend/bridge.h"
#include "backend/compile_context.h"
#include "backend/declined.h"
#include "backend/load.h"
#include "backend/options.h"
#include "backend/plugin_artifact.h"
#include "backend/registry.h"
#include "backend/status.h"
#include "graph/hash.h"
#include "report/events.h"
#include "report/log.h"

#include <algorithm>
#include <mutex>

namespace tenon {

namespace {

// Fakes for the inputs, with hints where sizes are symbolic.
std::vector<Tensor> example_inputs(const Graph& graph) {
  std::vector<Tensor> fakes;
  ShapeEnv* env = graph.shape_env.get();
  auto hint = [&](SymInt s) {
    return s.is_symbolic() ? SymInt(env ? env->int_hint(s).value_or(0) : 0) : s;
  };
  for (ValueId id : graph.inputs()) {
    const GraphValue& v = graph.value(id);
    if (v.kind != ValueKind::tensor) {
      fakes.emplace_back();
      continue;
    }
    TensorMeta meta = v.meta;
    for (SymInt& s : meta.sizes) s = hint(s);
    for (SymInt& s : meta.strides) s = hint(s);
    fakes.push_back(make_fake(meta, hint(v.offset)));
    if (v.flags.requires_grad) fakes.back().requires_grad_();
  }
  return fakes;
}

uint64_t request_flags(const CompileRequest& r) {
  return (r.dynamic ? TN_RQ_DYNAMIC : 0) | (r.deterministic ? TN_RQ_DETERMINISTIC : 0) |
         (r.grad_enabled ? TN_RQ_GRAD_ENABLED : 0) | (r.freezing ? TN_RQ_FREEZING : 0);
}

/// A request in the form of the ABI, with all that it points to.
class AbiRequest {
 public:
  AbiRequest(const BackendManifest& manifest, const std::string& plugin,
             const CompileRequest& request)
      : view_(request.graph),
        fakes_(example_inputs(*request.graph)),
        aliased_(request.aliased_outputs),
        key_(to_hex({reinterpret_cast<const char*>(hash_of(*request.graph).data()), 32})) {
    ctx.request = &request;
    ctx.backend = manifest.name;
    ctx.plugin = plugin;
    ctx.options = resolve_options(manifest, request);
    for (const Tensor& t : fakes_) heads_.push_back(t.head());
    aliased_.resize(request.graph->outputs().size(), no_value);
    fill(request);
  }
  AbiRequest(const AbiRequest&) = delete;

  tn_compile_request abi{};
  tn_ctx ctx;

 private:
  void fill(const CompileRequest& request) {
    abi.struct_size = sizeof abi;
    abi.stage = static_cast<int32_t>(request.stage);
    abi.flags = request_flags(request);
    abi.ctx = &ctx;
    abi.graph = &view_;
    abi.options = &ctx.options;
    abi.example_inputs = heads_.data();
    abi.static_inputs = request.static_inputs.data();
    abi.mutated_inputs = request.mutated_inputs.data();
    abi.aliased_outputs = aliased_.data();
    abi.n_inputs = static_cast<uint32_t>(heads_.size());
    abi.n_static = static_cast<uint32_t>(request.static_inputs.size());
    abi.n_mutated = static_cast<uint32_t>(request.mutated_inputs.size());
    abi.n_outputs = static_cast<uint32_t>(aliased_.size());
    abi.n_saved = request.n_saved;
    abi.cache_key = str_of(key_);
    abi.compile_id = str_of(request.compile_id);
  }

  tn_graph view_;
  std::vector<Tensor> fakes_;
  std::vector<tn_tensor*> heads_;
  std::vector<uint32_t> aliased_;
  std::string key_;
};

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
  std::shared_ptr<Artifact> out = plugin_artifact(artifact, plugin, manifest.name, request);
  out->guards = rq.ctx.guards;
  return out;
}

}  // namespace tenon
