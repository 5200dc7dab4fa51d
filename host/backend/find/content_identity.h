// What a file of code contains, in a few characters: the ID that the linker gave it, which another
// content does not have whatever size and time say, or else a digest.
#pragma once

#include "backend/find/note.h"

#include <string>

namespace tenon {

/// Of a plugin file that read_note() has read. Its size and time where it cannot be read any
/// more.
std::string content_identity(const std::string& path, const ElfInfo& elf);

/// Of the mapped file that holds the code at `address`.
std::string content_identity_of_code(const void* address);
/// Of the running program.
std::string content_identity_of_program();

}  // namespace tenon
