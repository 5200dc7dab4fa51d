// Questions on sizes whose answer decides on values or shapes.
#pragma once

#include "core/sym/sym_int.h"

#include <optional>

namespace tenon {

/// What the facts, or a guard on the examples, say about a condition; nothing where only the run
/// knows. Unlike those of guard_or_false and guard_or_true, which take sizes of the run for 2 or
/// more, the answer holds for sizes of 0 and 1 too.
std::optional<bool> decided(SymBool condition);

}  // namespace tenon
