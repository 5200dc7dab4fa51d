// The interpreter behind the interface of compiled graphs.
#include "graph/artifact.h"

#include "config/flags.h"
#include "core/error.h"
#include "core/threads/once.h"
#include "graph/interpret.h"

#include <tenon/plugin.h>

#include <optional>

namespace tenon {

namespace {

class InterpreterArtifact final : public Artifact {
 public:
  InterpreterArtifact(std::shared_ptr<const Graph> graph, BodyCode code)
      : graph_(std::move(graph)), code_(std::move(code)) {
    if (!config::flags().dynamo.use_lazy_graph_module) make_plan();
  }
  void call(std::span<detail::TensorHead*> inputs, std::span<const int64_t> syms,
            std::span<Tensor> outputs, bool steal) override {
    planned_.run([this] { make_plan(); });
    interpreter_->run(inputs, syms, outputs, steal);
  }
  std::string describe(int32_t what) const override;
  SavedArtifact save() const override {
    return {.kind = SavedArtifact::Kind::interpreter, .graph = graph_};
  }

 private:
  void make_plan() {
    if (!interpreter_) interpreter_.emplace(graph_, code_);
  }

  std::shared_ptr<const Graph> graph_;
  BodyCode code_;
  Once planned_;
  std::optional<Interpreter> interpreter_;  // made at the first call
};

std::string InterpreterArtifact::describe(int32_t what) const {
  if (what != TN_DESC_STATS_JSON) return "";
  size_t n = graph_->nodes().size();
  return message(
      "{{\"kernels\": 0, \"extern_calls\": {}, \"extern_ops\": [], \"fused_nodes\": 0, "
      "\"planned_bytes\": 0, "
      "\"naive_bytes\": 0, \"compile_ms\": 0, \"codegen_ms\": 0, \"from_cache\": false}}",
      n);
}

}  // namespace

void Artifact::fill(std::span<detail::TensorHead*>, std::span<const int64_t>, std::span<Tensor>) {
  fail_internal("an artifact was to write into outputs of its caller's");
}

SavedArtifact Artifact::save() const {
  fail(ErrorCode::unsupported,
       "what was compiled cannot be saved: only inference with a backend that saves its code can "
       "be (inductor does); load the model without training");
}

std::shared_ptr<Artifact> interpreter_artifact(std::shared_ptr<const Graph> graph, BodyCode code) {
  return std::make_shared<InterpreterArtifact>(std::move(graph), std::move(code));
}

}  // namespace tenon
