// What the dynamic linker would say about a plugin: missing libraries, undefined symbols, hygiene.
#pragma once

#include "backend/find/discover.h"

#include <string>
#include <string_view>
#include <vector>

namespace tenon {

/// Of the libraries that a file at `path` links, those that the dynamic linker would not find:
/// neither mapped already nor in its RUNPATH, LD_LIBRARY_PATH, the linker's cache or its default
/// folders. Maps and runs nothing. Any thread.
std::vector<std::string> missing_libraries(const std::string& path, const ElfInfo& elf);

/// Whether the dynamic linker would find the library for the program itself. Maps nothing.
bool library_is_found(const std::string& name);

/// P08, P09 or P01 for a plugin whose mapping failed with `text`, which may contain more than what
/// dlerror() said.
Diagnosis diagnose_link_failure(const FoundPlugin& plugin, std::string_view text);

/// P19: the plugin is ready, but offers no device of `type`.
Diagnosis diagnose_no_device(const FoundPlugin& plugin, std::string_view type,
                             std::string_view why);

/// P20 where it exports more than its entry, asks for an executable stack or has text relocations;
/// else none. Reads the file.
Diagnosis diagnose_hygiene(const FoundPlugin& plugin);

}  // namespace tenon
