// The file that this code was loaded from.
#pragma once

#include <string>

namespace tenon {

/// The library, or the program where there is none, without the links that lead to it; empty where
/// the system does not say. Throws std::bad_alloc.
std::string own_file();

}  // namespace tenon
