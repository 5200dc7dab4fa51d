// Control flow that is recorded by running it.
#pragma once

#include "core/dispatch.h"

namespace tenon::autograd {

/// Runs the branch that the predicate chooses. A result needs a gradient where that of either branch
/// would; what only the other branch reads has gradients of zeros.
void run_cond(const CallArgs& call);
/// Runs the iterations. A result needs a gradient where that of any iteration would, also where none ran.
void run_loop(const CallArgs& call);

}  // namespace tenon::autograd
