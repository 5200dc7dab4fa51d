// Adding gradients up, at leaves and in the buffers of the engine.
#include "autograd/accumulate_grad.h"

#include "autograd/grad_state.h"
#include "autograd/tape.h"
#include "core/dispatch.h"

#include <tenon/ops/create.h>

namespace tenon::autograd {

namespace {

// Nobody but this handle reaches the memory, all of it, so it may be written or taken over.
bool is_ours_alone(const Tensor& t) {
  const TensorImpl* impl = impl_of(t);
  return !t.is_fake() && impl->references.load(std::memory_order_acquire) == 1 &&
         impl->storage_ref->references.load(std::memory_order_acquire) == 1 &&
         (impl->flags & (TN_T_CONTIGUOUS | TN_T_CHANNELS_LAST)) != 0;
}

bool has_strides_of(const Tensor& t, const Tensor& leaf) {
  for (size_t d = 0; d < t.strides().size(); ++d)
    if (t.sizes()[d] != 1 && t.strides()[d] != leaf.strides()[d]) return false;
  return true;
}

// The first gradient of a leaf: taken over, or copied in the memory order of the leaf.
Tensor first_gradient(Tensor grad, const Tensor& leaf) {
  bool same_order = has_strides_of(grad, leaf);
  if (!thread_modes.grad_enabled && same_order && is_ours_alone(grad)) return grad;
  if (!thread_modes.grad_enabled) grad = grad.detach();
  return same_order ? grad.clone() : empty_like(leaf.detach()).copy_(grad);
}

}  // namespace

Tensor add_gradients(Tensor a, const Tensor& b) {
  bool may_write = !thread_modes.grad_enabled && is_ours_alone(a) && a.dtype() == b.dtype();
  if (!may_write) return a.add(b);
  a.add_(b);
  return a;
}

std::vector<Tensor> AccumulateGrad::apply(std::vector<Tensor> grads) {
  if (!grads[0].defined() || !leaf_.requires_grad()) return {};
  bool is_of_hooks = has_node_hooks(*this) || grads[0].dtype() != inputs[0].dtype;
  if (is_of_hooks) grads[0] = fit_gradient(std::move(grads[0]), inputs[0], *this, 0);
  if (thread_modes.tracer) gradient_touched_slot(leaf_, true);
  GradState& state = ensure_state(leaf_);
  {
    std::lock_guard guard(state.lock);
    if (!state.grad.defined()) {
      state.grad = first_gradient(std::move(grads[0]), leaf_);
    } else if (thread_modes.grad_enabled) {
      state.grad = state.grad.add(grads[0]);
    } else {
      state.grad.add_(grads[0]);  // in place: optimisers and callers hold this very tensor
    }
  }
  GradState& hooked = state_with_hooks(leaf_);
  std::vector<PostAccumulate> after;
  {
    std::lock_guard guard(hooked.lock);
    after = hooked.after_accumulate;
  }
  for (const auto& hook : after) hook.call(leaf_);
  return {};
}

}  // namespace tenon::autograd
