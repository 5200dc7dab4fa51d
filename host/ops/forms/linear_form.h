// What a call is linear in, by position of its arguments.
#pragma once

#include "ops/op_table.h"

#include <optional>
#include <vector>

namespace tenon {

/// The result as a sum of products of arguments, linear in each factor; no terms: zeros. Views are
/// linear in what they view; so are backward ops, which have a gradient first, in that. Nothing
/// where it is not known.
std::optional<std::vector<std::vector<size_t>>> linear_terms(const OpEntry& op);

}  // namespace tenon
