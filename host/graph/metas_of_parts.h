// Ops that a program adds may have neither a meta function nor a formula: their functions are run to
// find what their results look like.
#pragma once

#include "core/dispatch.h"

namespace tenon {

/// Whether only the function of the op says what its results look like.
bool has_metas_of_parts(const OpEntry& op);
/// Runs it on fakes, below the recorder of this thread, whose fakes the arguments are.
void run_parts_for_metas(const CallArgs& call);
/// Does so to learn what the function does; gives no results, and leaves errors to the other.
void ask_parts(const CallArgs& call);

}  // namespace tenon
