// Scalar functions that emitted code calls lane by lane, under names that no other library has.
#pragma once

#include "vector_math_lanes.h"

namespace lanes {

/// A call a lane of the symbol `name` of runtime_symbols(); y is null for functions of one operand.
Lanes call_lanes(const char* name, Lanes x, const Lanes* y);

}  // namespace lanes
