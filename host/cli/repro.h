// The folder that is left behind when the program meets a bug of its own.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tenon::cli {

/// Writes the command line, the version, the machine, the changed flags and the message into a new
/// folder below the temporary one and returns its path, or "" where that is not possible.
std::string write_repro(const std::vector<std::string>& arguments, std::string_view what) noexcept;

}  // namespace tenon::cli
