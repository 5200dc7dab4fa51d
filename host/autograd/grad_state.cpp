// Gradients, nodes and edges of tensors; the members of Tensor that speak of them.
#include "autograd/grad_state.h"

#include "autograd/accumulate_grad.h"
#include "autograd/late_nodes.h"
#include "autograd/tape.h"
#include "autograd/tape_requests.h"
#include "autograd/view.h"
#include "core/dispatch.h"
#include "core/error.h"
#include "core/tensor/owner_thread.h"
#include "core/tensor/stand_in.h"

namespace tenon {

static void mark_with_object(const Tensor& t, bool value) {
  mark_requires_grad(t, value);
  if (const Tensor* object = stands_for(t)) mark_with_object(*object, value);
}

namespace autograd {

GradState* state_of(const Tensor& t) {
  if (const Tensor* object = stands_for(t)) return state_of(*object);
  if (has_late_node(t)) late_nodes->make();
  return static_cast<GradState*>(impl_of(t)->grad.get());
}

GradState& ensure_state(const Tensor& t) {
  if (const Tensor* object = stands_for(t)) return ensure_state(*object);
  if (has_late_node(t)) late_nodes->make();
  TensorImpl* impl = impl_of(t);
  if (!impl->grad) impl->grad = std::make_unique<GradState>();
  return static_cast<GradState&>(*impl->grad);
}

GradState& state_with_hooks(const Tensor& leaf) {
  Tensor real = leaf.is_fake() ? object_behind_slot(leaf) : Tensor();
  return ensure_state(real.defined() ? real : leaf);
}

std::shared_ptr<Node> node_of(const Tensor& t) {
  if (const Tensor* object = stands_for(t)) return node_of(*object);
  refresh_view(t);
  GradState* state = state_of(t);
  return state ? state->node : nullptr;
}

bool has_history(const Tensor& t) { return has_late_node(t) || node_of(t); }

bool has_edge(const Tensor& t) { return has_late_node(t) || with_history_of(t).requires_grad(); }

// Views that a body makes of a captured tensor are views of its fake, which has a node where the body
// has written it with a value that needs a gradient.
Tensor with_history_of(const Tensor& t) {
  if (!t.is_fake() || !thread_modes.tracer) return t;
  if (const GradState* state = state_of(t); state && state->node) return t;
  Tensor captured = captured_slot(t);
  return captured.defined() ? captured : t;
}

Edge edge_of(const Tensor& t) {
  if (!t.defined()) return {};
  if (Tensor other = with_history_of(t); !same_head(other, t)) return edge_of(other);
  if (!t.requires_grad()) return {};
  if (const Tensor* object = stands_for(t)) return edge_of(*object);
  refresh_view(t);
  GradState& state = ensure_state(t);
  if (state.node) return {state.node, state.node_input};
  std::lock_guard guard(state.lock);
  std::shared_ptr<Node> known = state.accumulator.lock();
  if (!known) state.accumulator = known = std::make_shared<AccumulateGrad>(t);
  return {known, 0};
}

void mark_late_history(const Tensor& t) { mark_with_object(t, true); }

void set_history(const Tensor& t, std::shared_ptr<Node> node, uint32_t input) {
  GradState& state = ensure_state(t);
  state.node = std::move(node);
  state.node_input = input;
  mark_with_object(t, true);
}

}  // namespace autograd

const Tensor& Tensor::requires_grad_(bool value, std::source_location where) const {
  if (!defined()) detail::fail_undefined("requires_grad_");
  require_own_thread(*this, "requires_grad_");
  require(!value || is_differentiable(dtype()),
          "requires_grad_: only floating and complex tensors have gradients, found {}", dtype());
  require(
      value || is_leaf(),
      "requires_grad_: this tensor was made by {}; only leaves can stop needing a gradient, use "
      "detach()",
      is_leaf() ? "" : autograd::grad_fn(*this).name());
  if (thread_modes.tracer && requires_grad() != value)
    autograd::requires_grad_slot(*this, value, where);
  // Made here, so that threads that record with a common leaf find it.
  if (value) autograd::ensure_state(*this);
  // What stands for it looks as if it needed none.
  if (value) impl_of(*this)->storage_ref->stale_views = true;
  mark_with_object(*this, value);
  return *this;
}

Tensor Tensor::grad() const {
  if (!defined()) detail::fail_undefined("grad");
  require_own_thread(*this, "grad");
  if (thread_modes.tracer) {
    autograd::gradient_touched_slot(*this, true);
    if (is_fake())
      if (Tensor real = autograd::behind_fake_slot(*this); real.defined()) return real.grad();
  }
  autograd::GradState* state = autograd::state_of(*this);
  if (!state) return {};
  std::lock_guard guard(state->lock);
  return state->retained ? *state->retained : state->grad;
}

void Tensor::set_grad(const Tensor& gradient, std::source_location where) const {
  if (!defined()) detail::fail_undefined("set_grad");
  if (gradient.defined()) {
    bool same = autograd::same_sizes(gradient.sizes(), sizes()) && gradient.dtype() == dtype() &&
                gradient.device() == device();
    require(same,
            "set_grad: expected a gradient of shape {} and dtype {}, found shape {}, dtype {}",
            sizes(), dtype(), gradient.sizes(), gradient.dtype());
    require(!gradient.is_same(*this), "set_grad: a tensor cannot be its own gradient");
  }
  for (const Tensor* t : {this, &gradient}) require_own_thread(*t, "set_grad");
  if (thread_modes.tracer) {
    autograd::gradient_touched_slot(*this, false);
    if (is_fake() || (gradient.defined() && gradient.is_fake())) {
      std::vector<Tensor> real{*this, gradient};
      if (void* token = autograd::leave_recording_slot("set_grad()", where, real, {})) {
        real[0].set_grad(real[1]);
        return autograd::resume_recording_slot(token);
      }
    }
  }
  autograd::GradState& state = autograd::ensure_state(*this);
  std::lock_guard guard(state.lock);
  (state.retained ? *state.retained : state.grad) = gradient;
}

bool Tensor::is_leaf() const {
  if (!defined()) detail::fail_undefined("is_leaf");
  require_own_thread(*this, "is_leaf");
  if (written_fake_of(*this).defined() || autograd::node_of(*this)) return false;
  return !thread_modes.tracer || !is_fake() || autograd::is_leaf_slot(*this);
}

namespace {

void retain_on_tape(const Tensor& t) {
  std::shared_ptr<autograd::Node> node = autograd::node_of(t);
  autograd::GradState& state = autograd::ensure_state(t);
  if (!node || state.retained) return;
  state.retained = std::make_shared<Tensor>();
  autograd::retain_grad_at(*node, state.node_input, state.retained);
}

}  // namespace

void Tensor::retain_grad() const {
  if (!defined()) detail::fail_undefined("retain_grad");
  require_own_thread(*this, "retain_grad");
  require(requires_grad(),
          "retain_grad: this tensor needs no gradient; call requires_grad_() first");
  bool has_node_to_come = written_fake_of(*this).defined();
  if (!has_node_to_come && (!is_fake() || !thread_modes.tracer)) return retain_on_tape(*this);
  // Given the real tensor, or this one where the recording has a tape of its own.
  auto attach = [](const Tensor& on_tape) {
    retain_on_tape(on_tape);
    return autograd::HookHandle();
  };
  static_cast<void>(autograd::hook_slot(*this, {"retain_grad", true, attach}));
}

}  // namespace tenon
