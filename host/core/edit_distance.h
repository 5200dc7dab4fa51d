// How far two names are apart.
#pragma once

#include <cstddef>
#include <string_view>

namespace tenon {

/// The fewest letters to put in, take away or replace. Cost: the product of the lengths.
size_t edit_distance(std::string_view a, std::string_view b);

}  // namespace tenon
