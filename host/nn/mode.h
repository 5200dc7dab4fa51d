// What a recording must know of modules: the modes that its body reads, and whose integers are
// constants.
#pragma once

#include <tenon/tensor.h>

#include <cstdint>
#include <memory>

namespace tenon::nn {

/// While a recorder runs: a mode is about to be read. Filled in by capture/trace.cpp.
extern void (*mode_read_slot)(const std::shared_ptr<const bool>& mode);

/// How many calls of modules whose classes are marked static this thread is in.
extern constinit thread_local int32_t n_static_modules;

}  // namespace tenon::nn
