// The end of the plugins: by tenon::shutdown(), or when the process ends.
#pragma once

#include "backend/life/load.h"

namespace tenon {

/// Throws the BackendError that says that plugins are shut down.
[[noreturn]] void throw_closed();
/// To be called before a plugin is loaded. Throws BackendError TN_FAILED_PRECONDITION after
/// shutdown, and in a process that was forked after plugins had been loaded.
void require_loading_allowed();
/// Sees to it that plugins are shut down before static objects are destroyed. The end of a process
/// undoes last things first, so this is wanted after each step in which a plugin may have made
/// static objects: loading and its first compile.
void expect_shutdown();

/// The plugin that the code at `address` is of, or null; null also while its entry runs.
const LoadedPlugin* owner_of_code(const void* address);
/// Notes that the plugin whose code is at `user` was given a table of the plugin that owns
/// `table`, which is shut down after it.
void note_dependence(const void* user, const void* table);

}  // namespace tenon
