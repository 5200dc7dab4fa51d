// Autocast: which types a call is cast to, and the key that casts.
#pragma once

#include "ops/op_table.h"

#include <tenon/autocast.h>

#include <optional>
#include <span>

namespace tenon {

/// The type that the floating arguments of a call of `op` are cast to, given the types they have;
/// none: they stay. `lower` is the type of the region.
std::optional<Dtype> autocast_type(const OpEntry& op, Dtype lower, std::span<const Dtype> given);

/// Whether an argument of type `from` is cast when the call's type is `to`.
inline bool autocast_casts(Dtype from, Dtype to) {
  return is_floating(from) && from != Dtype::f64 && from != to;
}

/// What the autocast key does.
void run_autocast(const CallArgs& call);

/// What this thread has set. Throws UserError for what autocast does not do.
AutocastOptions autocast_state();
void set_autocast_state(const AutocastOptions& options);

}  // namespace tenon
