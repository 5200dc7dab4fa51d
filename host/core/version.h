// The version of Tenon.
#pragma once

#include <string_view>

namespace tenon {

inline constexpr std::string_view version = "0.1.0";

}  // namespace tenon
