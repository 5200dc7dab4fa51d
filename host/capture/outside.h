// Whether compiled callables run as they are on this thread, and operations outside of graphs.
#pragma once

#include <cstdint>

namespace tenon {

/// How many NoCompile and disable() are around what the thread does.
extern constinit thread_local int32_t n_uncompiled_scopes
    __attribute__((tls_model("initial-exec")));
inline bool is_uncompiled() { return n_uncompiled_scopes != 0; }

}  // namespace tenon
