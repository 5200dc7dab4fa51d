// Fallbacks: choosing, refusing and telling.
#include "backend/compile/fallback.h"

#include "backend/abi/status.h"
#include "backend/compile/artifact_stats.h"
#include "backend/compile/code_logs.h"
#include "backend/compile/compile_bodies.h"
#include "core/joined.h"
#include "ops/op_table.h"
#include "report/events.h"
#include "report/log.h"

#include <tenon/plugin.h>

namespace tenon {

namespace {

/// An artifact whose statistics count every op as run for somebody else.
class FallbackArtifact final : public Artifact {
 public:
  FallbackArtifact(std::shared_ptr<Artifact> artifact, const Graph& graph)
      : artifact_(std::move(artifact)), ops_(names_of_ops(graph)) {
    guards = artifact_->guards;
  }
  void call(std::span<detail::TensorHead*> inputs, std::span<const int64_t> syms,
            std::span<Tensor> outputs, bool steal) override {
    artifact_->call(inputs, syms, outputs, steal);
  }
  std::string describe(int32_t what) const override {
    if (what != TN_DESC_STATS_JSON) return artifact_->describe(what);
    ArtifactStats stats = ArtifactStats::parse(artifact_->describe(what));
    stats.extern_ops.insert(ops_.begin(), ops_.end());
    return stats.to_json();
  }
  SavedArtifact save() const override { return artifact_->save(); }

 private:
  std::shared_ptr<Artifact> artifact_;
  std::set<std::string> ops_;
};

// What the manifest says is wrong, not what the user asked for.
void check_known(const BackendManifest& manifest) {
  try {
    static_cast<void>(backend_info(manifest.fallback));
  } catch (const Error& e) {
    std::string_view why = e.what(), kind = name_of(e.code());
    if (!kind.empty()) why.remove_prefix(kind.size() + 2);  // "InvalidBackend: "
    throw BackendError(ErrorCode::plugin, TN_FAILED_PRECONDITION,
                       message("the manifest of backend {} names the fallback \"{}\": {}",
                               manifest.name, manifest.fallback, why));
  }
}

// A captured graph may hold writes and views, which a backend of stage "aot" is never shown.
void check_stage(const BackendManifest& manifest, const CompileRequest& request) {
  if (request.stage != Stage::captured || manifest.stage == BackendStage::aot) return;
  if (backend_info(manifest.fallback).stage == Stage::captured) return;
  throw BackendError(
      ErrorCode::plugin, TN_FAILED_PRECONDITION,
      message("backend {} takes captured graphs, its fallback {} takes functional ones; name a "
              "fallback of stage \"captured\" in the manifest, such as \"eager\"",
              manifest.name, manifest.fallback));
}

}  // namespace

std::set<std::string> names_of_ops(const Graph& graph) {
  std::set<std::string> names;
  for (const Node& node : graph.nodes()) names.insert(name_of(node.op));
  return names;
}

void refuse_declined(const BackendManifest& manifest, const Graph& graph, tn_status* status) {
  std::string reason = status->text;
  free_status(status);
  throw BackendError(
      ErrorCode::backend_compiler_failed, TN_DECLINED,
      message("backend {} declines a graph of {}{}, and has no fallback; use another backend",
              manifest.name, joined(names_of_ops(graph)),
              reason.empty() ? "" : " (" + reason + ")"));
}

std::shared_ptr<Artifact> as_fallback(std::shared_ptr<Artifact> artifact, const Graph& graph) {
  return std::make_shared<FallbackArtifact>(std::move(artifact), graph);
}

std::shared_ptr<Artifact> compile_with_fallback(const BackendManifest& manifest,
                                                const CompileRequest& request,
                                                const std::string& reason) {
  std::string what = message("{} leaves {} nodes: {}; {} takes them", manifest.name,
                             request.graph->nodes().size(), reason, manifest.fallback);
  report::log_line(report::LogLevel::info, "backend", what);
  log_perf_hint(what);
  report::counter("fallback.calls").add();
  report::counter("fallback.nodes").add(static_cast<int64_t>(request.graph->nodes().size()));
  if (manifest.fallback == "eager") {
    // Only backends of stage "aot" are shown bodies: those of functional graphs.
    bool compiles_bodies = manifest.stage == BackendStage::aot;
    return as_fallback(compiles_bodies ? interpreter_over_bodies(manifest.name, request)
                                       : interpreter_artifact(request.graph),
                       *request.graph);
  }
  check_known(manifest);
  check_stage(manifest, request);
  CompileRequest plain = request;  // options and modes are those of the backend
  plain.options_toml.clear();
  plain.mode.clear();
  return as_fallback(compile_with_backend(manifest.fallback, plain), *request.graph);
}

}  // namespace tenon
