// Running on the tape what was compiled for inference.
#include "aot/eager_training.h"

#include "core/dispatch.h"
#include "core/tensor/tensor_impl.h"
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

class BelowTape final : public Artifact {
 public:
  BelowTape(std::shared_ptr<Artifact> code, bool unless_wanted)
      : code_(std::move(code)), unless_wanted_(unless_wanted) {
    guards = code_->guards;
  }
  void call(std::span<detail::TensorHead*> inputs, std::span<const int64_t> syms,
            std::span<Tensor> outputs, bool steal) override {
    bool on_tape = unless_wanted_ && call_wants_gradients(inputs);
    ModeScope mode(0, on_tape ? 0 : bit(Key::autograd));
    code_->call(inputs, syms, outputs, steal);
  }
  std::string describe(int32_t what) const override { return code_->describe(what); }

 private:
  std::shared_ptr<Artifact> code_;
  bool unless_wanted_;
};

}  // namespace

// A view whose base was written on the tape tells when asked.
static bool needs_gradient(detail::TensorHead* t) {
  if (!t) return false;
  if (t->flags & TN_T_REQUIRES_GRAD) return true;
  return static_cast<TensorImpl*>(t)->storage_ref->stale_views && share(t).requires_grad();
}

bool call_wants_gradients(std::span<detail::TensorHead* const> inputs) {
  return thread_modes.grad_enabled && std::ranges::any_of(inputs, needs_gradient);
}

std::shared_ptr<Artifact> with_eager_training(std::shared_ptr<const Graph> graph,
                                              std::shared_ptr<Artifact> compiled) {
  return std::make_shared<EagerTraining>(std::move(graph), std::move(compiled));
}

std::shared_ptr<Artifact> on_tape_where_wanted(std::shared_ptr<Artifact> code) {
  return std::make_shared<BelowTape>(std::move(code), /*unless_wanted=*/true);
}

std::shared_ptr<Artifact> below_tape(std::shared_ptr<Artifact> code) {
  return std::make_shared<BelowTape>(std::move(code), /*unless_wanted=*/false);
}

}  // namespace tenon
