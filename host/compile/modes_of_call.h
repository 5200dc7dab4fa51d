// The modes of a thread around a call whose body may change them.
#pragma once

#include "core/dispatch.h"
#include "core/grad_mode.h"
#include "ops/modes/autocast_state.h"

#include <optional>

namespace tenon {

struct Recording;

/// A body may leave guards of modes open, or end such as are open around the call. What is recorded says
/// of its operations where gradients were not as the call has found them, and has casts as operations.
/// So what comes after the body is done in the modes of the call: code is made and runs. When the call
/// ends the thread has what the body has left.
class ModesOfCall {
 public:
  ModesOfCall() = default;
  ~ModesOfCall();
  ModesOfCall(const ModesOfCall&) = delete;

  /// Those that the call has found.
  const ThreadModes& of_call() const { return of_call_.thread; }
  void body_is_over();
  /// The recording, made just now, serves calls with these modes.
  void body_is_over(Recording& recording);

 private:
  struct Modes {
    ThreadModes thread = thread_modes;
    DeviceCasts casts = device_casts;
    int32_t n_inference = n_inference_modes;

    void set() const;
    /// Whether the thread has them now.
    bool are_set() const;
  };
  void settle_keys() const;

  const Modes of_call_;
  std::optional<Modes> left_;  // by the body, where they are others
  bool is_over_ = false;
};

}  // namespace tenon
