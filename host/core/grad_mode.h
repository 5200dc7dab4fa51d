// Whether what a thread does gets a history.
#pragma once

#include "core/dispatch.h"

namespace tenon {

/// How many InferenceMode live on this thread. They exclude the autograd key; so does a recording, which
/// puts back what it has found when it ends, while such a guard may be opened or ended in between.
inline constinit thread_local int32_t n_inference_modes = 0;

/// Whether operations that the program calls now get a history: not within an InferenceMode, also where
/// gradients are enabled inside of it.
inline bool gradients_are_on() { return thread_modes.grad_enabled && n_inference_modes == 0; }

/// Gradients are on or off, whatever the program has set meanwhile.
class GradientsAsRecorded {
 public:
  explicit GradientsAsRecorded(bool on)
      : enabled_(std::exchange(thread_modes.grad_enabled, on)),
        n_inference_(std::exchange(n_inference_modes, 0)),
        exclude_(thread_modes.exclude) {
    bool is_recorded = thread_modes.tracer != nullptr;  // whose scope excludes the tape itself
    if (on && n_inference_ && !is_recorded) thread_modes.exclude &= ~bit(Key::autograd);
  }
  ~GradientsAsRecorded() {
    thread_modes.grad_enabled = enabled_;
    n_inference_modes = n_inference_;
    thread_modes.exclude = exclude_;
  }
  GradientsAsRecorded(const GradientsAsRecorded&) = delete;

 private:
  const bool enabled_;
  const int32_t n_inference_;
  const uint64_t exclude_;
};

}  // namespace tenon
