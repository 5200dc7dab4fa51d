// Extensions: tables by name and version that the host or a plugin offers to plugins.
#pragma once

#include <cstdint>

namespace tenon {

/// The table, or null when nobody offers the extension in this version or a newer one. Several may:
/// they are numbered in the order in which they were added.
const void* find_extension(const char* id, uint32_t min_version, uint32_t index = 0);
/// Offers a table; it must live as long as the process.
void add_extension(const char* id, uint32_t version, const void* table);

}  // namespace tenon
