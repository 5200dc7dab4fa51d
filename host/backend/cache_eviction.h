// Keeping the cache on disk small.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tenon {

/// Files that are being written begin with this.
inline constexpr std::string_view temporary_prefix = ".tmp-";

/// When the entries below `root` come near `limit` bytes together, removes those whose use is
/// longest ago until an eighth of it is free; and what writers left that have died. Only files that
/// are named like entries, lie where they lie and are this user's are touched. Any thread.
void evict(const std::string& root, int64_t limit);

}  // namespace tenon
