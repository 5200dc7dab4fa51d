// Errors inside the host: what <tenon/error.h> gives the user, and the check for our own mistakes.
#pragma once

#include <tenon/error.h>

#include <source_location>
#include <string>
#include <vector>

namespace tenon {

[[noreturn]] void fail_internal(std::string_view what,
                                std::source_location where = std::source_location::current());

/// Throws InternalError unless `condition`, which only a bug of ours can break, holds.
inline void ensure(bool condition, detail::MessagePattern what,
                   std::source_location where = std::source_location::current()) {
  if (!condition) [[unlikely]]
    fail_internal(what, where);
}

/// The entries of `known` nearest to `name` by edit distance, at most `count`, best first: the
/// "did you mean" of every message about an unknown name. Cost O(|known| |name|²).
std::string nearest_names(std::string_view name, const std::vector<std::string>& known,
                          size_t count = 3);

}  // namespace tenon
