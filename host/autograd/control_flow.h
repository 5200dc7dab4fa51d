// Derivatives of control flow.
#pragma once

#include "core/dispatch.h"

namespace tenon::autograd {

/// Runs and records a call of a control flow op whose operands need gradients. On real tensors the
/// ops of the bodies that run are recorded one by one. In a recording the call gets a node whose
/// derivative is control flow again: throws UserError (unsupported) for while_loop, whose number of
/// iterations only the run knows.
void record_control_flow(const CallArgs& call);

}  // namespace tenon::autograd
