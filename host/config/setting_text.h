// A file of flags with one flag set, and everything else as its author wrote it.
#pragma once

#include <string>
#include <string_view>

namespace tenon::config {

/// The TOML text with `module.name` set to `value`, which is TOML too: in the place of the value
/// that it has there, under whichever of its names, else behind the comment that tells of the
/// flag, else at the end of its table. Throws FileError where `text` is not TOML, or sets the flag
/// in a way that is not changed here; `source` names it.
std::string with_setting(const std::string& text, const std::string& source,
                         const std::string& module, const std::string& name,
                         const std::string& value);

}  // namespace tenon::config
