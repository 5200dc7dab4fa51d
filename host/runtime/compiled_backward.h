// Compiled backward passes, as far as compiled callables have to do with them.
#pragma once

#include <tenon/compile.h>

#include <memory>

namespace tenon {

// Filled in by tape/api.cpp.

/// Backward passes of this thread are compiled as the callable is, until the result goes: flag
/// dynamo.compiled_autograd.
extern std::shared_ptr<void> (*compiled_backward_slot)(const Options& options);
/// Forgets the programs of backward passes; whether they are on stays. Throws UserError inside of
/// one.
extern void (*forget_backward_slot)();

}  // namespace tenon
