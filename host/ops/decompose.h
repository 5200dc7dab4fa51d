// Taking calls apart: the decomposition that a row gives, or the one that its formula means.
#pragma once

#include "ops/op_table.h"

namespace tenon {

/// Whether calls of the op can be run as calls of other ops.
bool can_decompose(const OpEntry& op);
/// Whether that follows from the formula; the row says nothing.
bool decomposes_by_formula(const OpEntry& op);
/// Runs the call so. Throws UserError where the parts do not take the arguments.
void decompose(const CallArgs& call);

}  // namespace tenon
