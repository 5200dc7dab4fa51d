// Pictures by Graphviz, where it is installed.
#pragma once

#include <string>

namespace tenon::cli {

/// Runs `dot -T<format>`. Throws UserError where there is no such program or where it fails.
std::string picture_of_dot(const std::string& dot, const std::string& format);

}  // namespace tenon::cli
