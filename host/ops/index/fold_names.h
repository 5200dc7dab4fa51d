// How elements that meet at one place are combined, by the names that scatters take.
#pragma once

#include <cstdint>
#include <string_view>

namespace tenon::ops {

enum class Fold : uint8_t { replace, sum, prod, mean, amax, amin };

/// Throws UserError for a name that is not known.
Fold fold_named(std::string_view op, std::string_view name);
inline void check_fold(std::string_view op, std::string_view name) { fold_named(op, name); }

}  // namespace tenon::ops
