// Gradients of leaves, around a recording and as its results.
#include "capture/grad_effects.h"

#include "autograd/grad_state.h"
#include "autograd/tape.h"
#include "capture/follow/follow.h"
#include "capture/trace.h"
#include "core/error.h"
#include "core/tensor/stand_in.h"
#include "graph/record.h"

#include <algorithm>

namespace tenon {

using autograd::GradState;

bool TouchedGradients::has_touched(const Tensor& leaf) const {
  return std::ranges::any_of(touched_, [&](const Touched& t) { return same_head(t.leaf, leaf); });
}

namespace {

// Its gradient is a value of the recording like any other.
bool is_made_by_body(const Tensor& leaf) {
  const GraphRecorder& recorder = recorder_of_thread();
  if (!leaf.is_fake() || !recorder.owns(leaf)) return false;
  const GraphValue& value = recorder_of_thread().graph().value(impl_of(leaf)->extra->trace_value);
  return value.source == ValueSource::node;
}

}  // namespace

void TouchedGradients::touch(const Tensor& leaf, bool reads) {
  GradState& state = autograd::ensure_state(leaf);
  touched_.push_back({leaf, state.grad, {}, reads && !state.grad.defined()});
}

void TouchedGradients::give_back() {
  if (std::exchange(gave_back_, true)) return;
  for (Touched& t : touched_)
    t.after = std::exchange(autograd::ensure_state(t.leaf).grad, t.before);
}

std::vector<bool> TouchedGradients::take_histories(std::span<const Tensor> outputs) {
  std::vector<bool> had;
  for (const Tensor& t : outputs) {
    bool is_own_leaf =
        t.defined() && t.requires_grad() && is_made_by_body(t) && !autograd::node_of(t);
    require(!is_own_leaf, ErrorCode::unsupported,
            "a body that calls backward() or requires_grad_() and must be one graph returns a leaf "
            "that it has made; return its detach(), or leave out fullgraph");
    had.push_back(t.defined() && t.is_fake() && t.requires_grad() && autograd::node_of(t));
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
    bool same = t.after.defined() ? t.before.defined() && same_head(t.after, t.before)
                                  : !t.before.defined() && t.found_without;
    if (!same) effects.left.push_back({leaf, gradient_origin(t.after)});
  }
}

int32_t TouchedGradients::references(const Tensor& fake) const {
  int32_t n = 0;
  for (const Touched& t : touched_) n += same_head(t.after, fake) + same_head(t.leaf, fake);
  return n;
}

namespace {

// The body meets a captured tensor as it is then.
bool is_yet_to_be_met(const Tensor& t) {
  const Follower* follower = Follower::current();
  return follower && !t.is_fake() && !follower->walk().has_met(t);
}

const bool installed_grad_effects = [] {
  autograd::gradient_touched_slot = [](const Tensor& leaf, bool reads) {
    if (thread_modes.follower) return;  // such bodies are recorded without the tape
    Trace* trace = Trace::current();
    if (!trace || !trace->is_on_tape()) return;
    if (trace->gradients().has_touched(leaf) || is_made_by_body(leaf)) return;
    Tensor& gradient = autograd::ensure_state(leaf).grad;
    // That of an argument, whose fake has none yet.
    const Tensor& real = leaf.is_fake() ? concrete_of(leaf) : leaf;
    if (leaf.is_fake() && real.defined()) gradient = autograd::ensure_state(real).grad;
    trace->gradients().touch(leaf, reads);
    if (reads && gradient.defined()) trace->inputs().lift_gradient(leaf, gradient);
  };
  autograd::requires_grad_slot = [](const Tensor& t, bool value) {
    if (is_yet_to_be_met(t)) return;
    Trace* trace = Trace::current();
    if (!trace) return;
    if (!t.is_fake() && !trace->inputs().stand_ins.fake_of(t).defined()) return;
    if (!trace->is_on_tape() && trace->fullgraph) throw WantsTape();
    if (!trace->is_on_tape()) change_needs(*trace, "requires_grad_()");
    if (!t.is_fake()) return set_need(trace->inputs(), t, value);
    if (const Tensor& real = concrete_of(t); real.defined()) real.requires_grad_(value);
  };
  autograd::leave_recording_slot = [](const char* what, std::vector<Tensor>& tensors) -> void* {
    Follower* follower = Follower::current();
    if (!follower || !follower->passes_break()) {
      Trace* trace = Trace::current();
      require(trace != nullptr, ErrorCode::unsupported,
              "{}: not supported while a graph tracer records", what);
      if (trace->is_on_tape()) return nullptr;
      if (trace->fullgraph) throw WantsTape();
    }
    return detail::enter_disabled(tensors, what);
  };
  autograd::resume_recording_slot = detail::leave_disabled;
  object_behind_slot = [](const Tensor& fake) -> Tensor {
    if (!impl_of(fake)->extra) return Tensor();  // of no recording
    if (const Follower* follower = Follower::current()) return follower->walk().real_of(fake);
    return Trace::current() ? concrete_of(fake) : Tensor();
  };
  object_asked_slot = [] {
    Trace* trace = Follower::current() ? nullptr : Trace::current();
    if (trace && trace->leaves_body_out && !trace->is_on_tape())
      trace->graph_break("is_same() of an argument and another tensor");
  };
  autograd::behind_fake_slot = [](const Tensor& fake) -> Tensor {
    const Trace* trace = Follower::current() ? nullptr : Trace::current();
    return trace && trace->is_on_tape() ? Tensor() : object_behind_slot(fake);
  };
  return true;
}();

}  // namespace

}  // namespace tenon
