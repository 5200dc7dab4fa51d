// The pass that flag functorch.joint_custom_pass names.
#pragma once

#include "aot/lower.h"

namespace tenon {

/// Runs it over the joint graph, or nothing where the flag is empty. Throws UserError for a name
/// that nobody registered.
void run_joint_pass(Lowered& joint, const LowerOptions& options);

/// Whether operations of this thread are recorded by such a pass right now: the one recorder that the
/// program starts itself.
bool is_in_joint_pass();

}  // namespace tenon
