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

class OnTapeWhereWanted final : public Artifact {
 public:
  explicit OnTapeWhereWanted(std::shared_ptr<Artifact> wrapped) : wrapped_(std::move(wrapped)) {
    guards = wrapped_->guards;
  }

  void call(std::span<detail::TensorHead*> inputs, std::span<const int64_t> syms,
            std::span<Tensor> outputs, bool steal) override {
    ModeScope mode(0, call_wants_gradients(inputs) ? 0 : bit(Key::autograd));
    wrapped_->call(inputs, syms, outputs, steal);
  }

  std::string describe(int32_t what) const override { return wrapped_->describe(what); }

 private:
  std::shared_ptr<Artifact> wrapped_;
};

class BelowTape final : public Artifact {
 public:
  explicit BelowTape(std::shared_ptr<Artifact> inner) : inner_(std::move(inner)) {
    guards = inner_->guards;
  }
  void call(std::span<detail::TensorHead*> inputs, std::span<const int64_t> syms,
            std::span<Tensor> outputs, bool steal) override {
    BelowAutograd below;
    inner_->call(inputs, syms, outputs, steal);
  }
  std::string describe(int32_t what) const override { return inner_->describe(what); }

 private:
  std::shared_ptr<Artifact> inner_;
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

std::shared_ptr<Artifact> on_tape_where_wanted(std::shared_ptr<Artifact> code) {
  return std::make_shared<OnTapeWhereWanted>(std::move(code));
}

std::shared_ptr<Artifact> below_tape(std::shared_ptr<Artifact> code) {
  return std::make_shared<BelowTape>(std::move(code));
}

}  // namespace tenon
