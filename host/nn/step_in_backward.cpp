// Optimisers that step while a backward pass runs.
//
// Compiled passes with updates of one kind share code, so two updates may be of one kind only if
// they call the same ops with the same numbers. What the optimisers of this library do depends on
// their options, and on dtype, device and number of dimensions of a parameter: their update is
// recorded once on fakes, and its text decides. Programs that make an optimiser for each phase, or
// for each step, so find the code that is there. Optimisers of the program may read numbers that
// change, or throw: they have no kind and are called. Cost: microseconds for each such parameter.
#include "autograd/leaf_update.h"
#include "core/sym/shape_env.h"
#include "core/tensor/tensor_impl.h"
#include "graph/record.h"
#include "graph/text/print.h"
#include "nn/optim_parts.h"

#include <tenon/optim.h>

#include <map>
#include <mutex>
#include <tuple>

namespace tenon::optim {

namespace {

/// Threads: any.
class UpdateKinds {
 public:
  uint64_t of(const std::string& ops) {
    std::lock_guard lock(kinds_lock_);
    auto [at, is_new] = known_.try_emplace(ops, last_ + 1);
    last_ += is_new;
    return at->second;
  }

 private:
  std::mutex kinds_lock_;
  uint64_t last_ = 0;
  std::map<std::string, uint64_t> known_;
};
UpdateKinds& kinds() {
  static auto* all = new UpdateKinds;
  return *all;
}

}  // namespace

/// That of one parameter.
struct ParameterUpdate final : autograd::LeafUpdate {
  ParameterUpdate(const Optimizer& o, size_t g, size_t s) : optimizer(o), group(g), slot(s) {}

  uint64_t kind() const override { return own_kind; }
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
    std::vector<Tensor> own(tensors.begin(), end);
    if (!is_of_the_library(optimizer)) return optimizer.update(group, leaf, grad, own);
    in_real_numbers(leaf, grad, own, [&](const Tensor& p, const Tensor& g, const auto& s) {
      optimizer.update(group, p, g, s);
    });
  }

  const std::vector<Tensor>& state() const { return optimizer.groups()[group].slots[slot].state; }

  const Optimizer& optimizer;
  size_t group, slot;
  uint64_t own_kind = 0;
};

namespace {

// Any sizes do: no optimiser of the library looks at them.
std::string ops_of(const ParameterUpdate& update, const Tensor& parameter) {
  GraphRecorder recorder(ShapeEnv::make());
  auto fake_of = [&](const Tensor& t) {
    Dims sizes(static_cast<size_t>(t.dim()), SymInt(2));
    return recorder.add_input(contiguous_meta(list_of(sizes), t.dtype(), t.device()));
  };
  std::vector<std::pair<Tensor, Tensor>> lifted;
  auto stand_in = [&](const Tensor& t) {
    for (const auto& [known, fake] : lifted)
      if (known.is_same(t)) return fake;
    return lifted.emplace_back(t, fake_of(t)).second;
  };
  recorder.lift = stand_in;
  recorder.import = stand_in;  // of an optimiser that a body has made, which is being recorded
  Tensor leaf = fake_of(parameter), grad = fake_of(parameter);
  std::vector<Tensor> tensors;
  for (size_t i = 0; i < update.n_tensors(); ++i) tensors.push_back(stand_in(update.tensor(i)));
  NoGradGuard no_grad;
  RecordScope scope(recorder);
  update.run(leaf, grad, tensors);
  return canonical_text(*recorder.finish({}));
}

/// The kinds of the updates of one group, by what they depend on.
class GroupKinds {
 public:
  uint64_t of(const ParameterUpdate& update, const Tensor& parameter) {
    Device device = parameter.device();
    auto [at, is_new] =
        known_.try_emplace({parameter.dtype(), parameter.dim(), device.type, device.index});
    if (is_new)
      at->second = is_of_the_library(update.optimizer) ? kinds().of(ops_of(update, parameter)) : 0;
    return at->second;
  }

 private:
  std::map<std::tuple<Dtype, int64_t, DeviceType, int64_t>, uint64_t> known_;
};

}  // namespace

StepInBackward::StepInBackward(Optimizer& optimizer) {
  for (size_t g = 0; g < optimizer.groups().size(); ++g) {
    GroupKinds kinds_of_group;
    const std::vector<Group::Slot>& slots = optimizer.groups()[g].slots;
    for (size_t s = 0; s < slots.size(); ++s) {
      auto update = std::make_shared<ParameterUpdate>(optimizer, g, s);
      update->own_kind = kinds_of_group.of(*update, slots[s].parameter);
      hooks_.push_back(autograd::update_after_accumulate(slots[s].parameter, std::move(update)));
    }
  }
}

StepInBackward::~StepInBackward() {
  for (autograd::HookHandle& hook : hooks_) hook.remove();
}

}  // namespace tenon::optim
