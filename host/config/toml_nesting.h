// How deep a TOML text nests, found out before it is parsed.
#pragma once

#include <string_view>

namespace tenon::config {

/// Throws FileError where tables and arrays of `text` lie in more than 64 others: dots of keys
/// count like brackets.
void check_toml_nesting(std::string_view text, std::string_view source);

}  // namespace tenon::config
