// What a recording must know of modules: the modes that its body reads, where those lie that it calls,
// and whose integers are constants.
#pragma once

#include <tenon/tensor.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace tenon::nn {

/// While a recorder runs: a mode is about to be read. Filled in by capture/trace.cpp.
extern void (*mode_read_slot)(const std::shared_ptr<const bool>& mode);

/// Likewise: a module in this memory is about to be called.
extern void (*module_called_slot)(std::span<const std::byte> memory);

/// How many calls of modules whose classes are marked static this thread is in.
extern constinit thread_local int32_t n_static_modules;

}  // namespace tenon::nn
