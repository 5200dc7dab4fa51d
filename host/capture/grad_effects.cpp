// Bodies that call backward(): what they do to the gradients of leaves.
//
// Problem: `opt.zero_grad(); loss.backward(); opt.step();` in a compiled body reads and replaces
// the `grad()` of captured tensors, which is not a value of the graph. Model: the body is recorded
// through the tape, whose passes are recorded like all else. The first time that the gradient of a
// leaf is touched, what it was is set aside; afterwards the leaf has it again, and what the body
// left there is an output of the graph, to be put there after each run. A gradient that was there
// before cannot be read: the body must drop it first. One that was missing when it was read must be
// missing in later calls.
#include "autograd/grad_state.h"
#include "autograd/tape.h"
#include "capture/trace.h"
#include "core/dispatch.h"
#include "core/error.h"

#include <algorithm>

namespace tenon {

using autograd::GradState;

void Trace::want_tape(const char* what) {
  if (is_on_tape()) return;
  require(!was_cut(), ErrorCode::unsupported,
          "{}: the body looks at data before ({}), and a body that calls backward() must be one "
          "graph; return the value instead of looking at it",
          what, open_reason_);
  throw WantsTape();
}

void Trace::touch_gradient(const Tensor& leaf, bool reads) {
  if (!is_on_tape()) return;
  bool is_known =
      std::ranges::any_of(touched_, [&](const TouchedGradient& t) { return t.leaf.is_same(leaf); });
  if (is_known) return;
  GradState& state = autograd::ensure_state(leaf);
  require(!reads || !state.grad.defined(), ErrorCode::unsupported,
          "a body that calls backward() reads the gradient that a tensor of shape {} had before; "
          "drop it in the body first: optimizer.zero_grad(), or set_grad({{}})",
          leaf.sizes());
  touched_.push_back({leaf, state.grad, {}, reads});
}

// The tape goes with the histories of the results, so that nothing recorded is kept by it.
void Trace::take_gradients(std::span<const Tensor> body_outputs) {
  if (!is_on_tape()) return;
  give_gradients_back();
  for (const Tensor& t : body_outputs) {
    bool needs = t.defined() && t.is_fake() && t.requires_grad() && !t.is_leaf();
    needs_history.push_back(needs);
    if (!needs) continue;
    autograd::state_of(t)->node = nullptr;
    mark_requires_grad(t, false);
  }
}

void Trace::give_gradients_back() {
  if (std::exchange(gave_back_, true)) return;
  for (TouchedGradient& t : touched_)
    t.after = std::exchange(autograd::ensure_state(t.leaf).grad, t.before);
}

// Also of one that was written since.
ValueOrigin Trace::origin_of_input(const Tensor& fake) const {
  for (uint32_t i = 0; i < segment_origins_.size(); ++i)
    if (recorder_.input_fake(i).is_same(fake)) return segment_origins_[i];
  fail(ErrorCode::unsupported,
       "a body that calls backward() changes the gradient of a leaf that it has made itself; call "
       "autograd::grad() for that");
}

void Trace::finish_gradients(std::vector<Tensor>& from_graph) {
  for (const TouchedGradient& t : touched_) {
    ValueOrigin leaf = origin_of_input(recorder_.as_fake(t.leaf));
    if (t.found_without) without_grad.push_back(leaf);
    bool same = t.after.defined() ? t.before.defined() && t.after.is_same(t.before)
                                  : !t.before.defined() && t.found_without;
    if (!same) grad_effects.push_back({leaf, origin_of(t.after, from_graph)});
  }
}

namespace {

const bool installed = [] {
  autograd::gradient_touched_slot = [](const Tensor& leaf, bool reads) {
    if (Trace* trace = Trace::current()) trace->touch_gradient(leaf, reads);
  };
  autograd::wants_tape_slot = [](const char* what) {
    require(Trace::current() != nullptr, ErrorCode::unsupported,
            "{}: not supported while a graph tracer records", what);
    Trace::current()->want_tape(what);
  };
  return true;
}();

}  // namespace

}  // namespace tenon
