// The interpreter behind the interface of compiled graphs.
#include "graph/artifact.h"

#include "core/error.h"
#include "graph/interpret.h"

#include <tenon/plugin.h>

namespace tenon {

namespace {

class InterpreterArtifact final : public Artifact {
 public:
  explicit InterpreterArtifact(std::shared_ptr<const Graph> graph)
      : interpreter_(std::move(graph)) {}
  void call(std::span<detail::TensorHead*> inputs, std::span<const int64_t> syms,
            std::span<Tensor> outputs, bool steal) override {
    interpreter_.run(inputs, syms, outputs, steal);
  }
  std::string describe(int32_t what) const override;

 private:
  Interpreter interpreter_;
};

std::string InterpreterArtifact::describe(int32_t what) const {
  if (what != TN_DESC_STATS_JSON) return "";
  size_t n = interpreter_.graph().nodes().size();
  return message(
      "{{\"kernels\": 0, \"extern_calls\": {}, \"extern_ops\": [], \"fused_nodes\": 0, "
      "\"planned_bytes\": 0, "
      "\"naive_bytes\": 0, \"compile_ms\": 0, \"codegen_ms\": 0, \"from_cache\": false}}",
      n);
}

}  // namespace

std::shared_ptr<Artifact> interpreter_artifact(std::shared_ptr<const Graph> graph) {
  return std::make_shared<InterpreterArtifact>(std::move(graph));
}

}  // namespace tenon
