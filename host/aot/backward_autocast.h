// Under which autocast state backwards are recorded: flag functorch.backward_pass_autocast.
#pragma once

#include "core/dispatch.h"

#include <tenon/autocast.h>

namespace tenon {

/// The autocast state that calls on this thread are made under now; off below BelowAutocast.
AutocastOptions autocast_in_effect();

/// Whether both cast alike.
inline bool same_casts(const AutocastOptions& a, const AutocastOptions& b) {
  return a.enabled == b.enabled && (!a.enabled || a.dtype == b.dtype);
}

/// What the flag makes of the state that the forward was called under. Throws UserError for a value
/// that is none of the flag's.
AutocastOptions autocast_of_backward(const AutocastOptions& forward);

/// Calls are made under `options` while one lives, whatever was set or excluded before.
class AutocastScope {
 public:
  explicit AutocastScope(const AutocastOptions& options);
  ~AutocastScope();

 private:
  ModeScope keys_;
  Dtype dtype_;
};

}  // namespace tenon
