// Where strings of a TOML text end, for whoever scans the text itself.
#pragma once

#include <cstddef>
#include <string_view>

namespace tenon::config {

/// The place behind the string that begins with the quote at `at`; of the four kinds there are.
size_t end_of_toml_string(std::string_view text, size_t at);

}  // namespace tenon::config
