// What lies in the cache on disk, and keeping it small.
#pragma once

#include <cstdint>
#include <ctime>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace tenon {

/// Files that are being written begin with this.
inline constexpr std::string_view temporary_prefix = ".tmp-";

/// The folders below the root: compiled graphs, their code, what plugins keep.
inline constexpr std::string_view cache_kinds[] = {"aot", "artifacts", "kernels"};

struct StoredEntry {
  std::filesystem::path path;
  std::string_view kind;
  int64_t bytes = 0;
  timespec used{};
};

/// The entries below `root`: files that are named like entries, lie where they lie and are this
/// user's. Removes what writers left that have died. Any thread.
std::vector<StoredEntry> stored_entries(const std::string& root);
/// Removes the files, and the folders that are empty then. The number of those that are gone.
int64_t remove_entries(const std::vector<StoredEntry>& entries);

/// When the entries below `root` come near `limit` bytes together, removes those whose use is
/// longest ago until an eighth of it is free. Any thread.
void evict(const std::string& root, int64_t limit);

}  // namespace tenon
