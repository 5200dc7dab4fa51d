// Those who want to be told what happens to compiled callables: compiler::on_event.
//
// Threads: all functions may be called from any thread.
#pragma once

#include "core/function_ref.h"

#include <tenon/report.h>

#include <string_view>

namespace tenon::report {

/// Whether anybody wants to know. One load.
bool has_observers() noexcept;

/// Calls the observers on this thread; what they throw becomes a warning. What they do themselves is
/// told to nobody. Not to be called under a lock that calls of the public API take.
void tell_observers(compiler::EventKind kind, std::string_view callable,
                    std::string_view text) noexcept;

/// Runs `f` with the recording of this thread suspended; graph/record.cpp fills it in.
extern void (*unrecorded_slot)(FunctionRef<void()> f);

}  // namespace tenon::report
