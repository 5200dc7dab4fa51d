// What a body leaves on, and what it ends.
#include "compile/modes_of_call.h"

#include "capture/recording.h"
#include "guards/global_state.h"

#include <tenon/devices.h>

namespace tenon {

void ModesOfCall::Modes::set() const {
  thread_modes = thread;
  device_casts = casts;
  n_inference_modes = n_inference;
}

bool ModesOfCall::Modes::are_set() const {
  const ThreadModes& now = thread_modes;
  return now.include == thread.include && now.exclude == thread.exclude &&
         now.grad_enabled == thread.grad_enabled && now.deterministic == thread.deterministic &&
         now.autocast_dtype == thread.autocast_dtype &&
         now.autocast_cache == thread.autocast_cache &&
         now.default_device == thread.default_device && device_casts == casts &&
         n_inference_modes == n_inference;
}

// The scopes of the recording have put back keys that guards of the body have changed.
void ModesOfCall::settle_keys() const {
  auto has = [](Key key) { return (thread_modes.include & bit(key)) != 0; };
  if ((device_casts.on_cpu || device_casts.on_cuda) != has(Key::autocast))
    set_autocast_state(autocast_state());
  if (Device device = thread_modes.default_device; (device != kCPU) != has(Key::defaults))
    set_default_device(device);
  bool is_inference = n_inference_modes != 0;
  if (is_inference == (of_call_.n_inference != 0)) return;
  thread_modes.exclude &= ~bit(Key::autograd);
  if (is_inference) thread_modes.exclude |= bit(Key::autograd);
}

void ModesOfCall::body_is_over() {
  settle_keys();
  is_over_ = true;
  if (!of_call_.n_inference && of_call_.are_set()) return;
  left_.emplace();
  of_call_.set();
  thread_modes.grad_enabled = gradients_are_on();
  n_inference_modes = 0;  // lowering has gradients on where it needs them
  // Nodes say of themselves that gradients were on.
  if (!left_->n_inference && of_call_.n_inference) thread_modes.exclude &= ~bit(Key::autograd);
}

void ModesOfCall::body_is_over(Recording& recording) {
  body_is_over();
  if (left_) recording.guards.global = global_state();
}

ModesOfCall::~ModesOfCall() {
  if (!is_over_) settle_keys();
  if (left_) left_->set();
}

}  // namespace tenon
