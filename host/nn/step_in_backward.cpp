// Optimisers that step while a backward pass runs.
#include "autograd/leaf_update.h"

#include <tenon/optim.h>

#include <atomic>

namespace tenon::optim {

namespace {

uint64_t next_kind() {
  static std::atomic<uint64_t> last{0};
  return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

}  // namespace

/// That of one parameter. Those of a group call the same ops.
struct ParameterUpdate final : autograd::LeafUpdate {
  ParameterUpdate(const Optimizer& o, size_t g, size_t s, uint64_t k)
      : optimizer(o), group(g), slot(s), kind_of_group(k) {}

  uint64_t kind() const override { return kind_of_group; }
  size_t n_tensors() const override { return state().size() + 2; }
  const Tensor& tensor(size_t i) const override {
    const Group& g = optimizer.groups()[group];
    if (i < state().size()) return state()[i];
    return i == state().size() ? g.lr.tensor() : g.momentum.tensor();
  }

  // Learning rate and momentum are read from the group, also while this is recorded.
  void run(const Tensor& leaf, const Tensor& grad,
           const std::vector<Tensor>& tensors) const override {
    auto end = tensors.begin() + static_cast<ptrdiff_t>(state().size());
    optimizer.update(group, leaf, grad, {tensors.begin(), end});
  }

  const std::vector<Tensor>& state() const { return optimizer.groups()[group].slots[slot].state; }

  const Optimizer& optimizer;
  size_t group, slot;
  uint64_t kind_of_group;
};

StepInBackward::StepInBackward(Optimizer& optimizer) {
  for (size_t g = 0; g < optimizer.groups().size(); ++g) {
    uint64_t kind = next_kind();
    const std::vector<Group::Slot>& slots = optimizer.groups()[g].slots;
    for (size_t s = 0; s < slots.size(); ++s)
      hooks_.push_back(autograd::update_after_accumulate(
          slots[s].parameter, std::make_shared<ParameterUpdate>(optimizer, g, s, kind)));
  }
}

StepInBackward::~StepInBackward() {
  for (autograd::HookHandle& hook : hooks_) hook.remove();
}

}  // namespace tenon::optim
