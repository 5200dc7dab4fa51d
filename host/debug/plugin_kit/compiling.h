// Compiling and calling what a check needs, through the host or straight at the plugin's tables.
#pragma once

#include "backend/abi/abi_request.h"
#include "backend/compile/declined.h"
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

/// Whether backends took a part of what they were asked to compile on this thread while it lives.
class TakenWatch {
 public:
  explicit TakenWatch(std::string backend) : backend_(std::move(backend)) {}
  /// `n_nodes`: of the graph that the backend was given, 0 where that is not known.
  bool took_something(size_t n_nodes = 0) const;
  /// Why not, in the words of the backend.
  std::string reason() const;

 private:
  std::string backend_;
  DeclineObserver observer_;
};

/// Compiles as a user's graph would be: lowered as the manifest asks, effects put right around it.
/// Throws CheckSkipped when the backend declines all of it or lacks an op.
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

  /// Runs `body` with each golden graph that the backend takes whole, prepared and with inputs; at
  /// most `most` of them. A failure in it names the graph. Throws CheckSkipped when the backend
  /// declines all of them.
  void for_each_work(Bench& bench, size_t most,
                     const std::function<void(const GraphCase&)>& body) const;
  void for_each_work(Bench& bench, const std::function<void(const GraphCase&)>& body) const {
    for_each_work(bench, bench.settings().quick ? 4 : 24, body);
  }
  /// The first `most` of these graphs.
  std::vector<GraphCase> work_cases(Bench& bench, size_t most) const;
  /// Compiles a prepared graph; the status belongs to the caller. False: `supports` rejects a node.
  bool takes(const CompileRequest& request) const;
  tn_status* compile(const CompileRequest& request, tn_artifact** out,
                     const std::function<void(tn_compile_request&)>& change = {}) const;

 private:
  std::optional<GraphCase> taken_case(const GoldenGraph& golden, uint64_t seed) const;
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
