// Backward passes that start inside of compiled callables: flag dynamo.compiled_autograd.
#pragma once

#include <tenon/compile.h>

#include <memory>

namespace tenon {

/// Backward passes of this thread are compiled as the callable is, until the result goes. Filled in
/// by tape/api.cpp.
extern std::shared_ptr<void> (*compiled_backward_slot)(const Options& options);

}  // namespace tenon
