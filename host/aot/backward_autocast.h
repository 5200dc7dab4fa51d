// Under which autocast state backwards are recorded: flag functorch.backward_pass_autocast.
#pragma once

#include "core/dispatch.h"
#include "ops/modes/autocast_state.h"

namespace tenon {

/// The autocast state that calls on this thread are made under now; off below BelowAutocast.
AutocastState autocast_in_effect();

/// What the flag makes of the state that the forward was called under. Throws UserError for a value
/// that is none of the flag's.
AutocastState autocast_of_backward(const AutocastState& forward);

/// Calls are made under `state` while one lives, whatever was set or excluded before.
class AutocastScope {
 public:
  explicit AutocastScope(const AutocastState& state);
  ~AutocastScope();

 private:
  ModeScope keys_;
  AutocastState before_;
};

}  // namespace tenon
