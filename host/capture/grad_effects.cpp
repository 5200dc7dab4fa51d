// Gradients of leaves, around a recording and as its results.
#include "capture/grad_effects.h"

#include "autograd/grad_state.h"
#include "autograd/tape.h"
#include "capture/trace.h"
#include "core/error.h"

#include <algorithm>

namespace tenon {

using autograd::GradState;

void TouchedGradients::touch(const Tensor& leaf, bool reads) {
  bool is_known =
      std::ranges::any_of(touched_, [&](const Touched& t) { return t.leaf.is_same(leaf); });
  if (is_known) return;
  GradState& state = autograd::ensure_state(leaf);
  require(!reads || !state.grad.defined(), ErrorCode::unsupported,
          "a body that calls backward() reads the gradient that a tensor of shape {} had before; "
          "drop it in the body first: optimizer.zero_grad(), or set_grad({{}})",
          leaf.sizes());
  touched_.push_back({leaf, state.grad, {}, reads});
}

void TouchedGradients::give_back() {
  if (std::exchange(gave_back_, true)) return;
  for (Touched& t : touched_)
    t.after = std::exchange(autograd::ensure_state(t.leaf).grad, t.before);
}

std::vector<bool> TouchedGradients::take_histories(std::span<const Tensor> outputs) {
  std::vector<bool> had;
  for (const Tensor& t : outputs) {
    had.push_back(t.defined() && t.is_fake() && t.requires_grad() && !t.is_leaf());
    if (!had.back()) continue;
    autograd::state_of(t)->node = nullptr;
    mark_requires_grad(t, false);
  }
  return had;
}

void TouchedGradients::finish(GradEffects& effects,
                              FunctionRef<ValueOrigin(const Tensor&)> leaf_origin,
                              FunctionRef<ValueOrigin(const Tensor&)> gradient_origin) const {
  for (const Touched& t : touched_) {
    ValueOrigin leaf = leaf_origin(t.leaf);
    if (t.found_without) effects.without_grad.push_back(leaf);
    bool same = t.after.defined() ? t.before.defined() && t.after.is_same(t.before)
                                  : !t.before.defined() && t.found_without;
    if (!same) effects.left.push_back({leaf, gradient_origin(t.after)});
  }
}

int32_t TouchedGradients::references(const Tensor& fake) const {
  int32_t n = 0;
  for (const Touched& t : touched_) n += t.after.is_same(fake) + t.leaf.is_same(fake);
  return n;
}

namespace {

const bool installed = [] {
  autograd::gradient_touched_slot = [](const Tensor& leaf, bool reads) {
    if (thread_modes.follower) return;  // such bodies are recorded without the tape
    Trace* trace = Trace::current();
    if (trace && trace->is_on_tape()) trace->gradients().touch(leaf, reads);
  };
  autograd::wants_tape_slot = [](const char* what) {
    Trace* trace = Trace::current();
    require(trace != nullptr, ErrorCode::unsupported,
            "{}: not supported while a graph tracer records", what);
    if (trace->is_on_tape()) return;
    require(!trace->so_far().has_graph_breaks(), ErrorCode::unsupported,
            "{}: the body looks at data before ({}), and a body that calls backward() must be one "
            "graph; return the value instead of looking at it",
            what, trace->so_far().break_reason);
    throw WantsTape();
  };
  return true;
}();

}  // namespace

}  // namespace tenon
