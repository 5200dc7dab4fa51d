// Pictures by Graphviz, where it is installed.
#pragma once

#include <string>

namespace tenon::cli {

/// Runs `dot -Tsvg`. Throws UserError where there is no such program or where it fails.
std::string svg_of_dot(const std::string& dot);

}  // namespace tenon::cli
