// What a recording must know of modules: the modes that its body reads, and whose integers are
// constants.
#pragma once

#include <tenon/tensor.h>

#include <cstdint>
#include <memory>
#include <string_view>

namespace tenon::nn {

/// While a recorder runs: a mode is about to be read. Filled in by capture/trace.cpp.
extern void (*mode_read_slot)(const std::shared_ptr<const bool>& mode);

/// The number in a tensor, for a module that messages call `what`: its own line tells nobody where
/// the user's call is. Filled in by capture/api.cpp.
extern int64_t (*read_number_slot)(const Tensor& t, std::string_view what);

/// How many calls of modules whose classes are marked static this thread is in.
extern constinit thread_local int32_t n_static_modules;

}  // namespace tenon::nn
