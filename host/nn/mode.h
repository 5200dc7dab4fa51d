// What a recording must know of modules: the modes that its body reads.
#pragma once

#include <memory>

namespace tenon::nn {

/// While a recorder runs: a mode is about to be read. Filled in by capture/trace.cpp.
extern void (*mode_read_slot)(const std::shared_ptr<const bool>& mode);

}  // namespace tenon::nn
