// Running on the tape what was compiled for inference.
#include "aot/eager_training.h"

#include "core/dispatch.h"
#include "graph/interpret.h"
#include "report/events.h"

#include <algorithm>

namespace tenon {

namespace {

class EagerTraining final : public Artifact {
 public:
  EagerTraining(std::shared_ptr<const Graph> graph, std::shared_ptr<Artifact> compiled)
      : interpreter_(std::move(graph)), compiled_(std::move(compiled)) {
    guards = compiled_->guards;
  }

  void call(std::span<detail::TensorHead*> inputs, std::span<const int64_t> syms,
            std::span<Tensor> outputs, bool steal) override {
    if (!call_wants_gradients(inputs)) {
      BelowAutograd below;
      return compiled_->call(inputs, syms, outputs, steal);
    }
    report::counter("aot.eager_training_calls").add();
    interpreter_.run(inputs, syms, outputs, steal);
  }

  std::string describe(int32_t what) const override { return compiled_->describe(what); }

 private:
  Interpreter interpreter_;
  std::shared_ptr<Artifact> compiled_;
};

}  // namespace

bool call_wants_gradients(std::span<detail::TensorHead* const> inputs) {
  return thread_modes.grad_enabled && std::ranges::any_of(inputs, [](const detail::TensorHead* t) {
           return t && (t->flags & TN_T_REQUIRES_GRAD);
         });
}

std::shared_ptr<Artifact> with_eager_training(std::shared_ptr<const Graph> graph,
                                              std::shared_ptr<Artifact> compiled) {
  return std::make_shared<EagerTraining>(std::move(graph), std::move(compiled));
}

}  // namespace tenon
