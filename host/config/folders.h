// The folders that hold files of flags, and the files in them.
#pragma once

#include "config/reading.h"

#include <optional>
#include <string>
#include <string_view>

namespace tenon::config {

/// Why nobody may rely on a project file: that others than root and this user could have written
/// it. Empty where all is well.
std::string why_not_trusted(const std::string& path);

/// The one of `known` that `name` misses by one or two letters; empty where it is one of them, or
/// like none.
std::string misspelt(std::string_view name, const std::vector<std::string>& known);

/// The layer that a file belongs to by the place where it lies: a folder of config_folders(), or any
/// project folder. None: it is read where --config names it only.
std::optional<Layer> layer_of_file(const std::string& path);

}  // namespace tenon::config
