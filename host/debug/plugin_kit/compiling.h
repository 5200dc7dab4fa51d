// Compiling and calling what a check needs, through the host or straight at the plugin's tables.
#pragma once

#include "backend/abi/abi_request.h"
#include "debug/plugin_kit/check.h"
#include "debug/plugin_kit/graph_case.h"
#include "graph/artifact.h"

#include <memory>
#include <span>
#include <string>
#include <vector>

namespace tenon::kit {

/// "plugin/backend", which no other plugin shadows.
std::string full_name(Bench& bench, const std::string& backend);
const BackendManifest& manifest_of(const Bench& bench, const std::string& backend);

/// Compiles as a user's graph would be: lowered as the manifest asks, effects put right around it.
/// Throws CheckSkipped when the backend declines or lacks an op.
std::shared_ptr<Artifact> compile_through_host(Bench& bench, const std::string& backend,
                                               const std::shared_ptr<Graph>& graph);
std::vector<Tensor> call(Artifact& artifact, const GraphCase& graph_case,
                         std::span<const Tensor> inputs);

/// A backend of the plugin as its tables are, and a graph in the form that it wants.
class DirectBackend {
 public:
  DirectBackend(Bench& bench, const std::string& backend);

  const tn_backend& table() const { return *table_; }
  const BackendManifest& manifest() const { return manifest_; }
  /// The graph as the backend gets it: lowered where its stage is "aot".
  GraphCase prepared(const GraphCase& graph_case) const;
  /// A request for a prepared graph.
  CompileRequest request(const GraphCase& prepared) const;

  /// A golden graph that the backend takes whole, with inputs. Throws CheckSkipped when it declines
  /// all of them.
  GraphCase work_case(uint64_t seed) const;
  /// Compiles a prepared graph; the status belongs to the caller. False: `supports` rejects a node.
  bool takes(const CompileRequest& request) const;
  tn_status* compile(const CompileRequest& request, tn_artifact** out,
                     const std::function<void(tn_compile_request&)>& change = {}) const;

 private:
  const BackendManifest& manifest_;
  const std::string plugin_;
  const tn_backend* table_;
};

/// Owns an artifact of the plugin.
class ArtifactHandle {
 public:
  ArtifactHandle() = default;
  explicit ArtifactHandle(tn_artifact* owned) : p_(owned) {}
  ArtifactHandle(ArtifactHandle&& o) noexcept : p_(std::exchange(o.p_, nullptr)) {}
  ~ArtifactHandle() { reset(); }
  void reset() {
    if (tn_artifact* p = std::exchange(p_, nullptr)) p->api->destroy(p);
  }
  tn_artifact* get() const { return p_; }
  const tn_artifact_api* operator->() const { return p_->api; }

 private:
  tn_artifact* p_ = nullptr;
};

/// Compiles and expects success.
ArtifactHandle compile_directly(const DirectBackend& backend, const CompileRequest& request);

/// What a direct call gave.
struct DirectResult {
  tn_status* status = nullptr;  ///< freed with the result
  std::vector<Tensor> outputs;
  DirectResult() = default;
  DirectResult(DirectResult&& o) noexcept
      : status(std::exchange(o.status, nullptr)), outputs(std::move(o.outputs)) {}
  ~DirectResult();
  int32_t code() const;
  std::string text() const;
};
DirectResult call_directly(tn_artifact* artifact, const GraphCase& graph_case,
                           std::span<const Tensor> inputs);

/// The text of a status, which it frees.
std::string text_and_free(tn_status* status);

}  // namespace tenon::kit
