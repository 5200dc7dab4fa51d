// Sizes that are symbols: equality before all other questions.
#pragma once

#include "core/sym/sym_int.h"

namespace tenon {

/// Whether two symbols are equal in the example, which a guard then keeps so; false for plain sizes
/// and for those that only run time knows. Asked first, it spares the questions whether one is 1,
/// and sizes of 1 need no version of their own.
bool symbols_match(SymInt a, SymInt b);

}  // namespace tenon
